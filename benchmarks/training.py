"""One training step of the product's loop, compared with a bare torch loop with the same network and batches.

Run as ``python -m benchmarks.training`` from the root of the project.
"""

import tempfile
from pathlib import Path

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from benchmarks.timing import measure, ratio_table
from positively.config import TrainConfig
from positively.finetune import ImageDataset, Trainer, create_method, launch
from positively.finetune.loading import TrainBatchSampler, make_loader
from positively.images import ImageTransform
from positively.models import create_classifier
from positively.research.scenes import write_scenes

BATCH, STEPS, SIZE = 32, 8, 64


def main() -> None:
    config = TrainConfig(
        depth="finetune", epochs=10_000, batch_size=BATCH, lr=1e-3, ema=0.0, workers=0, devices=1, accelerator="cpu"
    )
    fabric = launch(config)
    with tempfile.TemporaryDirectory() as folder:
        table = write_scenes(Path(folder), "train", BATCH * STEPS)
        samples = ImageDataset(table, ImageTransform(SIZE))
        batches = list(make_loader(samples, TrainBatchSampler(len(table), BATCH, seed=0)))
        for backbone in ("positively_tiny", "resnet18"):

            def classifier(backbone: str = backbone) -> torch.nn.Module:
                torch.manual_seed(0)
                return create_classifier(backbone, len(table.classes), "none", SIZE)

            network = classifier()
            optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=100_000)

            def bare(network=network, optimizer=optimizer, schedule=schedule) -> None:  # type: ignore[no-untyped-def]
                for batch in batches:
                    loss = binary_cross_entropy_with_logits(network(batch.inputs), (batch.states == 1).float())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    schedule.step()

            loops = {
                name: Trainer(fabric, config, create_method(name), classifier(), samples, samples)
                for name in ("assume-negative", "pu-mlc")
            }

            def learn(loop: Trainer) -> None:
                for batch in batches:
                    loop._learn(batch)

            tasks = {
                "bare torch loop, BCE": bare,
                "positively, assume-negative": lambda loops=loops: learn(loops["assume-negative"]),
                "positively, pu-mlc with mixup": lambda loops=loops: learn(loops["pu-mlc"]),
            }
            print(ratio_table(f"{STEPS} steps of {BATCH}, {backbone} at {SIZE} px", measure(tasks)), end="\n\n")


if __name__ == "__main__":
    main()
