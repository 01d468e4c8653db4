"""What a run says of its model: which network, which classes, and what its scores mean; and the arrays of a probe."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

import positively
from positively.errors import RunError, option
from positively.files import write_json, write_text, write_with
from positively.probe import KernelClassifier, LinearClassifier, Probe
from positively.runs.folder import FORMAT, RunFolder

_NEEDED = ("classes", "backbone", "image_size", "head", "depth")


def save_probe(folder: RunFolder, probe: Probe) -> None:
    """Write the classifiers of a probe as plain arrays."""
    arrays = KernelClassifier.of(probe).to_arrays("kernel")
    if probe.linear is not None:
        arrays |= LinearClassifier.of(probe).to_arrays("linear")
    write_with(folder.probe, lambda temporary: save_file(arrays, temporary))


def load_classifier(folder: RunFolder, head: str) -> KernelClassifier | LinearClassifier:
    """A classifier of a probe by its name, 'kernel' or 'linear'."""
    kind = KernelClassifier if head == "kernel" else LinearClassifier
    try:
        return kind.from_arrays(head, load_file(folder.verified(folder.probe)))
    except (SafetensorError, OSError, KeyError):
        again = option("resume", "auto")
        raise RunError(f"{folder.probe} is damaged. Train the run again, with {again} it is quick.") from None


def write_model_config(folder: RunFolder, described: Mapping[str, Any], classes: Sequence[str]) -> None:
    """Write config.json and then the manifest, the last files of a run: they say that it is finished.

    Args:
        folder: Where to.
        described: What the model is: method, backbone, image_size, head, depth and more.
        classes: Its classes, in order.
    """
    made_by = {"format": FORMAT, "positively": positively.__version__}
    write_json(folder.model, {**made_by, **described, "classes": list(classes)})
    folder.finish()


def load_model_config(folder: RunFolder) -> dict[str, Any]:
    """Content of config.json of a finished run; what later versions add to it is passed over."""
    if not folder.path.is_dir():
        raise RunError(f"There is no run folder {folder.path}.")
    again = option("resume", "auto")
    if not folder.is_finished:
        hint = f" Go on with {again}." if folder.checkpoint.exists() else ""
        raise RunError(f"{folder.path} holds no finished run.{hint}")
    try:
        model_config: dict[str, Any] = json.loads(folder.verified(folder.model).read_text(encoding="utf-8"))
        is_newer = model_config["format"] > FORMAT
        missing = [name for name in _NEEDED if name not in model_config]
    except (ValueError, KeyError, TypeError):
        raise RunError(f"{folder.model} is damaged. Train the run again, with {again} it is quick.") from None
    if is_newer:
        raise RunError(
            f"{folder.path} was written by positively {model_config.get('positively')}; this is "
            f"{positively.__version__}. Update it: pip install -U positively."
        )
    if missing:
        raise RunError(f"{folder.model} lacks {', '.join(missing)}. Train the run again, with {again} it is quick.")
    return model_config


def has_exact_scores(model_config: Mapping[str, Any]) -> bool:
    """Whether the stored scores of a run's photos have not seen their labels."""
    return bool(model_config.get("has_exact_scores", model_config["depth"] == "probe"))


_PROBABILITIES = """Scores are probabilities that an image carries a tag, found from labels the classifier did not see
(`calibration.safetensors`). A tag is given where its probability reaches the class's threshold (`thresholds.json`: the
largest expected F1; null for a class that could not be learned)."""
_SCORES = """A tag is predicted where its score reaches the class's threshold (`thresholds.json`), found on images held
out from training. Scores order images by how likely they carry a tag; they are not probabilities."""


def score_meaning(folder: RunFolder) -> str:
    """What the scores of a run are, for its card."""
    return _PROBABILITIES if folder.calibration.exists() else _SCORES


def write_card(folder: RunFolder, config: Mapping[str, Any], trained_on: str, epoch: Mapping[str, float]) -> None:
    """Write the model card: what the model is, what it learned from, what it measured in its ``epoch`` (if any)."""
    rows = [f"| {name} | {value:.4g} |" for name, value in epoch.items()]
    measured = "\n".join(["\nMeasured in training:\n", "| measure | value |", "|---|---|", *rows, ""]) if rows else ""
    given = ", ".join(f"{name} {value}" for name, value in config["method_options"].items()) or "the defaults"
    write_text(
        folder.card,
        f"""# {folder.path.name}

A multi-label image classifier trained with `{config["method"]}` (options: {given}) by positively
{positively.__version__}: backbone `{config["backbone"]}` at {config["image_size"]} px, depth `{config["depth"]}`,
seed {config["seed"]}.

Learned from {trained_on}.

{score_meaning(folder)}

    positively predict {folder.path} photo.jpg
    positively evaluate {folder.path} test.csv --blank negative
{measured}""",
    )
