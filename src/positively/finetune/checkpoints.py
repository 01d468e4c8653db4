"""Checkpoints of a training in its run folder."""

from __future__ import annotations

from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from positively.errors import RunError
from positively.files import write_with
from positively.runs.folder import RunFolder


class CheckpointFolder:
    """Where a training in a run folder leaves what a resumed one needs."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder, self.path = folder, folder.path

    def save_checkpoint(self, state: dict[str, Any]) -> None:
        """Replace the last checkpoint in one step."""

        def write(temporary: Path) -> None:
            with temporary.open("wb") as file:  # by Python's file, which says why a write failed
                torch.save(state, file)

        write_with(self.folder.checkpoint, write)

    def load_checkpoint(self) -> dict[str, Any] | None:
        """Last checkpoint, if there is one. Plain tensors and numbers only: nothing in it can run code."""
        path = self.folder.checkpoint
        if not path.exists():
            return None
        try:
            state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        except (RuntimeError, EOFError, UnpicklingError):
            raise RunError(f"{path} is damaged. Delete {self.path} and train again.") from None
        return state

    def write_metrics(self, history: list[dict[str, float]]) -> None:
        """Write one row an epoch."""
        self.folder.write_metrics(history)
