"""The run folder: everything one training produced, each file written whole."""

from __future__ import annotations

import csv
import io
import json
import os
import platform
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import yaml

from positively.errors import RunError
from positively.files import write_json, write_text, write_with

FORMAT = 1
"""Version of the run folder's layout, for the reader that comes after us."""


class RunFolder:
    """Names of a run's files, and how they are written and read."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.environment = self.path / "environment.json"
        self.metrics = self.path / "metrics.csv"
        self.checkpoint = self.path / "checkpoint" / "last"
        self.weights = self.path / "model.safetensors"
        self.model = self.path / "config.json"
        self.thresholds = self.path / "thresholds.json"
        self.images = self.path / "images.csv"
        self.card = self.path / "README.md"

    @classmethod
    def open(cls, out: str | None, name: str, resume: bool) -> RunFolder:
        """Folder to train in: a new one, or (``resume``) the one to go on in."""
        if out is None:
            base = Path("runs") / name
            used = [base] + [base.with_name(f"{name}-{n}") for n in range(2, 10_000)]
            free = next(i for i, path in enumerate(used) if not path.exists())
            out = str(used[max(free - 1, 0)] if resume else used[free])
        folder = cls(out)
        if folder.config.exists() and not resume:
            raise RunError(
                f"{folder.path} already holds a run. Pass --resume auto to go on with it, or another folder with --out."
            )
        try:
            folder.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"The run folder {folder.path} cannot be made: {error.strerror}. Pass --out DIR.") from None
        return folder

    @property
    def is_finished(self) -> bool:
        """Whether the run has a model to use."""
        return self.weights.exists() and self.model.exists() and self.thresholds.exists()

    def write_config(self, settings: Mapping[str, Any]) -> None:
        """Write the whole effective configuration, as ``--config`` takes it, and what it ran on."""
        text = yaml.safe_dump({**settings, "out": str(self.path)}, sort_keys=False, allow_unicode=True)
        write_text(self.config, text)
        write_json(self.environment, environment())

    def write_metrics(self, history: list[dict[str, float]]) -> None:
        """Write one row an epoch."""
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(history[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(history)
        write_text(self.metrics, text.getvalue())

    def write_images(self, hashes: dict[str, tuple[str, str]]) -> None:
        """Write which images the run learned from: name → (content hash, part)."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["image", "hash", "part"])
        writer.writerows([name, *entry] for name, entry in hashes.items())
        write_text(self.images, text.getvalue())

    def read_images(self) -> dict[str, str]:
        """Content hash → name of every image the run learned from."""
        if not self.images.exists():
            raise RunError(f"{self.images} is missing, so that nobody can tell which images the run learned from.")
        with self.images.open(encoding="utf-8", newline="") as file:
            return {row["hash"]: row["image"] for row in csv.DictReader(file)}

    def write_thresholds(self, classes: tuple[str, ...], thresholds: npt.NDArray[np.float64]) -> None:
        """Write one threshold a class."""
        write_json(self.thresholds, dict(zip(classes, thresholds.tolist(), strict=True)))

    def read_thresholds(self, classes: list[str]) -> npt.NDArray[np.float64]:
        """One threshold a class, in the order of ``classes``."""
        try:
            known = json.loads(self.thresholds.read_text(encoding="utf-8"))
            return np.array([known[name] for name in classes], dtype=np.float64)
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"{self.thresholds} does not give each class a threshold ({error}). Mend it, or train the run again."
            ) from None

    def save_checkpoint(self, state: dict[str, Any]) -> None:
        """Replace the last checkpoint in one step."""
        try:
            write_with(self.checkpoint, lambda temporary: torch.save(state, temporary))
        except RuntimeError as error:  # torch's own writer, where there is no room
            raise RunError(f"{self.checkpoint} cannot be written (is the disk full?): {error}") from None

    def load_checkpoint(self) -> dict[str, Any] | None:
        """Last checkpoint, if there is one. Plain tensors and numbers only: nothing in it can run code."""
        if not self.checkpoint.exists():
            return None
        try:
            state: dict[str, Any] = torch.load(self.checkpoint, map_location="cpu", weights_only=True)
        except (RuntimeError, EOFError, UnpicklingError):
            raise RunError(f"{self.checkpoint} is damaged. Delete {self.path} and train again.") from None
        return state


def environment() -> dict[str, Any]:
    """What a run ran on."""
    names = ("positively", "torch", "torchvision", "timm", "lightning-fabric", "numpy", "Pillow")
    return {
        "command": " ".join(sys.argv),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "packages": {name: version(name) for name in names},
    }
