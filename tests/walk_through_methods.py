"""Run by two processes at once: every registered method unbroken, and killed in the middle of an epoch and resumed."""

import os
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

# 31 images a batch: one process has 16 of them, the other 15.
CHANGES = {"epochs": 2, "batch_size": 31, "checkpoint_minutes": 0.0, "freeze_batchnorm": True, "dtype": "float64"}
CHANGES |= {"restore_best": True, "refit": True}


def main(place, out):
    import shapes
    import tiny_clip  # noqa: F401 (timm knows the network of that name then)
    from positively import distributed
    from positively.config import TrainConfig
    from positively.finetune.loop import Trainer
    from positively.finetune.methods import METHODS, register_method
    from positively.finetune.runtime import launch
    from test_methods import STEPPED, Everything, Killed, Memory, make, weights

    fabric = launch(TrainConfig(accelerator="cpu", devices=2, dtype="float64"))
    register_method("everything")(Everything)
    table, learn = shapes.read_shapes(place, "train"), Trainer._learn

    def learn_and_die(self, batch):
        learn(self, batch)
        if (self.epoch, self.step) == (1, 3):
            raise Killed  # on both processes, as in a power cut; the last checkpoint is that of step 2

    for method in [*STEPPED, "everything"]:
        depth = METHODS[method].depths[-2:][0]
        for kind in ("unbroken", "resumed"):
            store = Memory()
            if kind == "resumed":
                Trainer._learn = learn_and_die
                with pytest.raises(Killed):
                    make((table,), fabric, place, method, depth, store, **CHANGES).run()
                Trainer._learn = learn
                store.saved = distributed.broadcast(store.saved)
                if method == "prototype" and fabric.is_global_zero:
                    (out / "prototype.checkpoint").write_bytes(store.saved)
            training = make((table,), fabric, place, method, depth, store, resume="auto", **CHANGES)
            assert training.resumed == (kind == "resumed")
            training.run()
            state = {name: tensor.contiguous().clone() for name, tensor in weights(training).items()}
            save_file(state, out / f"{method}-{kind}-{fabric.global_rank}.safetensors")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
    torch.distributed.barrier()  # neither is gone while the other still needs it
    os._exit(0)  # taking a group down aborts the process now and then: gloo's threads may still run
