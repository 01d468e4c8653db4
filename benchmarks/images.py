"""From JPEG files to pixels: our transform compared with Pillow and torchvision.

Run as ``python -m benchmarks.images`` from the root of the project.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import InterpolationMode, v2

from benchmarks.timing import measure, ratio_table
from positively.images import ImageTransform

SIDE = 224


def photo(width: int, height: int, seed: int) -> Image.Image:
    """An image that compresses like a photo: smooth shapes with some grain."""
    generator = np.random.default_rng(seed)
    small = Image.fromarray(generator.integers(0, 255, (24, 32, 3), dtype=np.uint8))
    large = np.asarray(small.resize((width, height), Image.Resampling.BICUBIC), dtype=np.int16)
    return Image.fromarray((large + generator.integers(-12, 12, large.shape)).clip(0, 255).astype(np.uint8))


def main() -> None:
    peer = v2.Compose([v2.Resize((SIDE, SIDE), InterpolationMode.BICUBIC, antialias=True), v2.PILToTensor()])
    ours = ImageTransform(SIDE)
    with tempfile.TemporaryDirectory() as folder:
        for name, width, height, count in (("web", 640, 480, 40), ("camera", 4000, 3000, 4)):
            paths = [Path(folder) / f"{name}{i}.jpg" for i in range(count)]
            for seed, path in enumerate(paths):
                photo(width, height, seed).save(path, quality=90)

            def load_ours(paths: list[Path] = paths) -> list[torch.Tensor]:
                return [torch.from_numpy(ours(path).copy()).permute(2, 0, 1) for path in paths]

            def load_peer(paths: list[Path] = paths) -> list[torch.Tensor]:
                return [peer(Image.open(path).convert("RGB")) for path in paths]

            tasks: dict[str, Callable[[], object]] = {"positively": load_ours, "PIL + torchvision": load_peer}
            both = zip(load_ours(), load_peer(), strict=True)
            difference = max((mine.float() - theirs.float()).abs().mean().item() for mine, theirs in both)
            print(ratio_table(f"{count} JPEGs of {width}×{height} → {SIDE}×{SIDE}", measure(tasks)))
            print(f"mean difference of pixels: {difference:.2f} of 255\n")


if __name__ == "__main__":
    main()
