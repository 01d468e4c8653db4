"""Everything a report needs from a run folder, read once."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from positively.calibration import CalibratedScores, OutOfSample
from positively.errors import RunError
from positively.labels import LabelTable, States
from positively.runs.folder import RunFolder
from positively.runs.saving import load_model_config
from positively.runs.sources import read_config, read_table_again, states_as_trained

# Pairs of photo and tag that a report looks at; larger tables are sampled at even distances.
MOST_PAIRS = 2**23
# Files copied without their times do not show how long the training took.
_SAME_MOMENT = 5.0


@dataclass(frozen=True)
class RunContents:
    """The contents of a finished run."""

    folder: RunFolder
    config: dict[str, Any]
    """Content of config.yaml."""
    model: dict[str, Any]
    """Content of config.json."""
    environment: dict[str, Any]
    history: list[dict[str, str]]
    """Rows of metrics.csv."""
    thresholds: npt.NDArray[np.float64]
    """``(C,)``, infinite for a class that is never predicted."""
    calibrated: CalibratedScores | None
    """What scores mean; None for a method without probabilities."""
    evaluation: dict[str, Any] | None
    """Content of evaluation.json."""
    parts: list[str]
    """Part of each image: 'train' or 'holdout'."""
    images: list[str]
    """Names of the photos in the report: all of them unless the table is very large."""
    out_of_sample: OutOfSample | None
    """Their out-of-sample scores, ``(N, C)``, and what these mean."""
    states: States | None
    """Their label states, ``(N, C)``; None if neither the run nor its table has them."""
    root: Path | None
    """Folder of the images, if the table was available."""
    source: str
    """Name of the training table."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""
        return tuple(self.model["classes"])

    @property
    def seconds(self) -> float | None:
        """Duration of the training, if its files still have their times."""
        try:
            began = datetime.fromisoformat(self.environment["started"]).timestamp()
            written, ended = (path.stat().st_mtime for path in (self.folder.environment, self.folder.model))
        except (KeyError, ValueError, TypeError, OSError):
            return None
        return ended - began if abs(written - began) < _SAME_MOMENT and ended >= began else None


def read_contents(path: str | Path, table: LabelTable | None = None) -> RunContents:
    """Read a finished run.

    Args:
        path: The run folder.
        table: The training table, if available; otherwise it is read again if the run did not store its labels.

    Raises:
        RunError: There is no finished run, or a file of it is damaged.
    """
    folder = RunFolder(path)
    model = load_model_config(folder)
    classes: list[str] = model["classes"]
    config = read_config(folder)
    names, parts = _read(folder, folder.images, _parse_images)
    rows = np.unique(np.linspace(0, len(names) - 1, max(1, min(len(names), MOST_PAIRS // len(classes)))).astype(int))
    out_of_sample, states = None, None
    stored = folder.read_out_of_sample()
    if stored is not None:
        _, states, found = stored
        rows = rows[rows < len(states)]
        out_of_sample, states = OutOfSample(found.scores[rows], found.calibrated), states[rows]
    else:
        table = table or read_table_again(config, classes)
        if table is not None:
            states = states_as_trained(table, config, classes, [names[row] for row in rows])
    return RunContents(
        folder=folder,
        config=config,
        model=model,
        environment=_read(folder, folder.environment, json.loads),
        history=_read(folder, folder.metrics, lambda text: list(csv.DictReader(text.splitlines()))),
        thresholds=folder.read_thresholds(classes),
        calibrated=folder.read_calibration(model["head"]) if folder.calibration.exists() else None,
        evaluation=_read(folder, folder.evaluation, _parse_evaluation) if folder.evaluation.exists() else None,
        parts=parts,
        images=[names[row] for row in rows],
        out_of_sample=out_of_sample,
        states=states,
        root=table.root if table is not None else None,
        source=table.source if table is not None else Path(str(config.get("table") or "a table from Python")).name,
    )


def _read(folder: RunFolder, path: Path, parse: Any) -> Any:
    try:
        return parse(folder.verified(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        raise RunError(f"{path} is missing or damaged. Put it back, or train the run again.") from None


def _parse_images(text: str) -> tuple[list[str], list[str]]:
    rows = [(row["image"], row["part"]) for row in csv.DictReader(StringIO(text))]
    if not rows:
        raise ValueError("a run has at least one image")
    return [image for image, _ in rows], [part for _, part in rows]


def _parse_evaluation(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    for name in ("images", "mean_average_precision", "average_precision", "f1", "f1_at_half", "f1_top_3"):
        found[name]  # what the page shows; without these the file is not an evaluation
    return found
