"""Cost of a training step of each method: time and peak memory relative to BCE, for head, loss, gradient and Adam.

Run as ``python -m benchmarks.methods`` from the root of the project. Embeddings are random numbers of the size of
EfficientNet-Lite0, pooled or as 7×7 maps, as each head needs them. A tenth of the labels is known. Steps are late in
the training, when all parts of a method are active; work between epochs is not included. Memory is the peak of torch
in a step, without weights, optimizer and inputs.
"""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.timing import measure
from positively.finetune import METHODS, StepContext, create_method
from positively.labels import LabelTable
from positively.models import HEADS
from positively.models.classifier import Tail
from positively.models.heads import create_head
from positively.report import Table

IMAGES, CHANNELS, SIDE, EPOCHS, STEPS = 2048, 1280, 7, 20, 2
SIZES = {"pooled features": (256, 80), "maps": (16, 20)}
"""Batch size and number of classes."""
UNMEASURED = {"dual-coop": "needs CLIP", "closed-form": "has no steps"}


class Step:
    """Training steps of one method on random embeddings."""

    def __init__(self, name: str, batch: int, classes: int, head: str | None = None) -> None:
        generator = np.random.default_rng(0)
        states = np.where(generator.random((IMAGES, classes)) < 0.04, 1, -1)
        states *= generator.random(states.shape) < 0.1
        images = [f"{row}.jpg" for row in range(IMAGES)]
        table = LabelTable.from_states(images, [f"class {c}" for c in range(classes)], states)
        torch.manual_seed(0)
        self.method = create_method(name)
        made = create_head(head or METHODS[name].head or "linear", CHANNELS, classes)
        made.setup(table)
        shape = (batch, CHANNELS, SIDE, SIDE) if "map" in made.feature_key else (batch, CHANNELS)
        self.network = Tail(None, made, freeze_batchnorm=False)
        self.batches = [torch.rand(shape) for _ in range(STEPS)]
        self.rows = torch.arange(batch * STEPS).view(STEPS, batch)
        self.states = torch.from_numpy(table.states())
        around = SimpleNamespace(
            device=torch.device("cpu"),
            table=table,
            trainable=self.network,
            seed=0,
            epochs=EPOCHS,
            epoch=0,
            inputs=torch.rand(IMAGES, 64).numpy(),
        )
        self.method.setup(around)
        self.parameters = [*self.network.parameters(), *self.method.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, lr=1e-3)
        for epoch in (0, 1):  # fills queues, dictionaries and the state of Adam
            self.learn(epoch)

    def learn(self, epoch: int = EPOCHS - 1) -> None:
        """Run a few steps of an epoch."""
        for index, (inputs, rows) in enumerate(zip(self.batches, self.rows, strict=True)):
            step = StepContext(0, epoch, index, rows)
            parts = self.method.training_step(self.network, inputs, self.states[rows], step)
            torch.stack(list(parts.values())).sum().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()


class Peak(TorchDispatchMode):
    """Measures the peak number of bytes of tensors created inside."""

    def __init__(self) -> None:
        super().__init__()
        self.held, self.highest, self._seen = 0, 0, set[int]()

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        made = function(*arguments, **(options or {}))
        for value in made if isinstance(made, tuple | list) else [made]:
            if isinstance(value, torch.Tensor):
                self._hold(value.untyped_storage())
        return made

    def _hold(self, storage: Any) -> None:
        place, size = id(storage), storage.nbytes()
        if place in self._seen:
            return
        self._seen.add(place)
        self.held += size
        self.highest = max(self.highest, self.held)
        weakref.finalize(storage, self._release, place, size)

    def _release(self, place: int, size: int) -> None:
        self._seen.discard(place)
        self.held -= size


def peak_bytes(step: Step) -> int:
    """Peak number of bytes in a few steps."""
    with Peak() as peak:
        step.learn()
    return peak.highest


def stores_maps(name: str) -> bool:
    """Whether a head needs feature maps."""
    return "map" in create_head(name, 8, 2).feature_key


def compare(title: str, batch: int, classes: int, methods: list[str]) -> Table:
    """Compare methods with BCE on the linear head, and with BCE on their own head."""
    heads = [head for head in HEADS if head in {METHODS[name].head for name in methods}]
    steps = {name: Step(name, batch, classes) for name in ["bce", *methods]}
    steps |= {f"bce, head {head}": Step("bce", batch, classes, head) for head in heads}
    seconds = measure({name: step.learn for name, step in steps.items()}, repeats=7)
    memory = {name: peak_bytes(step) for name, step in steps.items()}
    rows = []
    for name in steps:
        peers = ["bce", f"bce, head {METHODS[name].head}" if name in METHODS else ""]
        ratios = [f"{of[name] / of[peer]:.1f} ×" if peer in of else "" for peer in peers for of in (seconds, memory)]
        rows.append((name, *ratios))
    columns = ("", "time", "memory", "time, to BCE with its head", "memory, to BCE with its head")
    notes = (f"{batch} images a step, {classes} classes, {CHANNELS} channels, one thread.",)
    return Table(f"A step on {title}, as multiples of BCE with the linear head", columns, tuple(rows), notes)


def main() -> None:
    torch.set_num_threads(1)
    measured = [name for name in METHODS if name not in ("bce", *UNMEASURED)]
    with_maps = [name for name in measured if stores_maps(METHODS[name].head or "linear")]
    groups = {"pooled features": [name for name in measured if name not in with_maps], "maps": with_maps}
    for title, methods in groups.items():
        print(compare(title, *SIZES[title], methods).markdown())
    print("Not measured: " + "; ".join(f"{name} ({why})" for name, why in UNMEASURED.items()) + ".")


if __name__ == "__main__":
    main()
