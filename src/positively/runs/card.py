"""The model card of a run, README.md: what the model is, what `train` expects of it, what `evaluate` measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import positively
from positively.errors import quoted
from positively.files import refuse_foreign, write_json, write_text
from positively.metrics import Evaluation
from positively.runs.folder import RunFolder

if TYPE_CHECKING:
    from positively.runs.run import Run

_MEASURED = "\n## Measured by `positively evaluate`\n"

_PROBABILITIES = """Scores are probabilities that an image carries a tag, estimated from labels that the classifier did
not see (`calibration.safetensors`). The model gives a tag if its probability reaches the threshold of the class
(`thresholds.json`, chosen for the largest expected F1; null for a class that could not be learned)."""
_SCORES = """The model gives a tag if its score reaches the threshold of the class (`thresholds.json`), chosen on images
held out from training. Scores rank images by how likely they carry a tag; they are not probabilities."""


def score_meaning(folder: RunFolder) -> str:
    """What the scores of a run mean."""
    return _PROBABILITIES if folder.calibration.exists() else _SCORES


def write_card(folder: RunFolder, config: Mapping[str, Any], trained_on: str, expected: str) -> None:
    """Write the card of a run that was just trained.

    Args:
        folder: The run.
        config: Its configuration.
        trained_on: What it learned from, such as "200 images".
        expected: What the training expects of the model; empty if it expects nothing.
    """
    given = ", ".join(f"{name} {value}" for name, value in config["method_options"].items()) or "the defaults"
    promise = f"\n## Expected by `positively train`\n\n{expected}\n" if expected else ""
    write_text(
        folder.card,
        f"""# {folder.path.name}

A multi-label image classifier trained with method `{config["method"]}` (options: {given}) by positively
{positively.__version__}: backbone `{config["backbone"]}` at {config["image_size"]} px, depth `{config["depth"]}`,
seed {config["seed"]}.

Trained on {trained_on}.

{score_meaning(folder)}

    {quoted("positively", "predict", str(folder.path), "photo.jpg")}
    {quoted("positively", "evaluate", str(folder.path), "test.csv", "--blank", "negative")}
{promise}""",
    )


def check_place(path: Path) -> None:
    """Raise if an evaluation would replace a file that is none.

    Raises:
        FileError: With the name of the file.
    """
    refuse_foreign(path, _is_evaluation)


def write_evaluation(
    run: Run, evaluation: Evaluation, out: str | Path | None = None, *, table: str, split: str | None = None
) -> Path:
    """Write an evaluation as JSON with the options that shaped it; one of the run folder also goes into the card.

    Args:
        run: The run, with the head and the thresholds that were evaluated.
        evaluation: What was measured.
        out: The file; default: evaluation.json in the run folder.
        table: Path of the test table.
        split: Part of the table that was used.

    Raises:
        FileError: If another program's file is in the place of the file.
    """
    folder = run.folder
    path = folder.evaluation if out is None else Path(out)
    if out is not None:
        check_place(path)
    options = {"head": run.head, "min_precision": run.min_precision}
    told = {"table": table, "split": split, **options, **evaluation.to_dict()}
    write_json(path, told)
    written = [path]
    if path == folder.evaluation and folder.card.exists():
        card = folder.card.read_text(encoding="utf-8").partition(_MEASURED)[0]
        write_text(folder.card, f"{card}{_MEASURED}\n{_measured(told, evaluation)}")
        written.append(folder.card)
    folder.record(*written)
    return path


def describe_thresholds(told: Mapping[str, Any]) -> str:
    """Which thresholds and which head an evaluation used, by the content of evaluation.json.

    >>> describe_thresholds({"min_precision": 0.8, "head": "linear"})
    'thresholds for an expected precision of 80 %, linear head'
    """
    share = told.get("min_precision")
    thresholds = "the run's own thresholds" if share is None else f"thresholds for an expected precision of {share:.0%}"
    return thresholds.replace("%", " %") + (", linear head" if told.get("head") == "linear" else "")


def _measured(told: Mapping[str, Any], evaluation: Evaluation) -> str:
    part = f", split `{told['split']}`" if told["split"] else ""
    f1 = evaluation.f1
    return f"""On {evaluation.images:,} images of `{Path(told["table"]).name}`{part}, with {describe_thresholds(told)}:

| measure | % |
|---|--:|
| mean average precision | {100 * evaluation.mean_average_precision:.1f} |
| precision of all tags given | {100 * f1.overall_precision:.1f} |
| recall of all true tags | {100 * f1.overall_recall:.1f} |
| F1 over all tags | {100 * f1.overall_f1:.1f} |
| mean F1 of the classes | {100 * f1.class_f1:.1f} |
"""


def _is_evaluation(path: Path) -> bool:
    """Whether a file was written by :func:`write_evaluation`."""
    return '"mean_average_precision"' in path.read_text(encoding="utf-8", errors="replace")
