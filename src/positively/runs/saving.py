"""config.json of a run, and the arrays of a probe."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

import positively
from positively.errors import RunError, option
from positively.files import write_json, write_with
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
        raise RunError(f"{folder.probe} is damaged. Train the run again; with {again} this is fast.") from None


def write_model_config(folder: RunFolder, described: Mapping[str, Any], classes: Sequence[str]) -> None:
    """Write config.json and then the manifest. They are the last files of a training and mark it as finished.

    Args:
        folder: The run.
        described: The model: method, backbone, image_size, head, depth and more.
        classes: Its classes, in order.
    """
    made_by = {"format": FORMAT, "positively": positively.__version__}
    write_json(folder.model, {**made_by, **described, "classes": list(classes)})
    folder.finish()


def load_model_config(folder: RunFolder) -> dict[str, Any]:
    """Content of config.json of a finished run; unknown keys are ignored."""
    if not folder.path.is_dir():
        raise RunError(f"There is no run folder {folder.path}.")
    again = option("resume", "auto")
    if not folder.is_finished:
        hint = f" Continue with {again}." if folder.checkpoint.exists() else ""
        raise RunError(f"{folder.path} holds no finished run.{hint}")
    try:
        model_config: dict[str, Any] = json.loads(folder.verified(folder.model).read_text(encoding="utf-8"))
        is_newer = model_config["format"] > FORMAT
        missing = [name for name in _NEEDED if name not in model_config]
    except (ValueError, KeyError, TypeError):
        raise RunError(f"{folder.model} is damaged. Train the run again; with {again} this is fast.") from None
    if is_newer:
        raise RunError(
            f"{folder.path} was written by positively {model_config.get('positively')}; this is "
            f"{positively.__version__}. Update it: pip install -U positively."
        )
    if missing:
        raise RunError(f"{folder.model} lacks {', '.join(missing)}. Train the run again; with {again} this is fast.")
    return model_config


def has_exact_scores(model_config: Mapping[str, Any]) -> bool:
    """Whether the stored scores of a run's images do not depend on the images' own labels."""
    return bool(model_config.get("has_exact_scores", model_config["depth"] == "probe"))
