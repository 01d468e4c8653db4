"""Checkpoints of a training, saved in its run folder."""

from __future__ import annotations

from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from positively.errors import RunError
from positively.files import write_with
from positively.runs.folder import RunFolder


class CheckpointFolder:
    """Checkpoint store in a run folder."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder, self.path = folder, folder.path

    def save_checkpoint(self, state: dict[str, Any]) -> None:
        """Replace the last checkpoint atomically."""

        def write(temporary: Path) -> None:
            with temporary.open("wb") as file:  # torch's own file writer hides the reason of a failed write
                torch.save(state, file)

        write_with(self.folder.checkpoint, write)

    def load_checkpoint(self) -> dict[str, Any] | None:
        """Load the last checkpoint, or None. Only tensors and plain values are read, so that no code can run."""
        path = self.folder.checkpoint
        if not path.exists():
            return None
        try:
            state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        except (RuntimeError, EOFError, UnpicklingError):
            raise RunError(f"{path} is damaged. Delete {self.path} and train again.") from None
        return state

    def write_metrics(self, history: list[dict[str, float]]) -> None:
        """Write the metrics, one row per epoch."""
        self.folder.write_metrics(history)
