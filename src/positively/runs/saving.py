"""The model for use: weights as safetensors, and the few values needed to build the network again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import timm
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import positively
from positively.errors import RunError, option
from positively.files import write_json, write_text, write_with
from positively.models import Classifier, create_classifier
from positively.runs.folder import FORMAT, RunFolder

_NEEDED = ("classes", "backbone", "image_size", "head", "head_options", "lgconv", "depth")


def save_model(
    folder: RunFolder,
    classifier: Classifier,
    classes: Sequence[str],
    config: Mapping[str, Any],
    has_exact_scores: bool | None = None,
) -> None:
    """Write model.safetensors and config.json, with digests of the weights and the classes.

    Args:
        folder: Where to.
        classifier: The network.
        classes: Its classes, in order.
        config: The training's.
        has_exact_scores: Whether the out-of-sample scores stored beside it are by labels other than a photo's own, in
            the network too; by default, as the depth says.
    """
    tensors = _separate(classifier.state_dict())
    write_with(folder.weights, lambda temporary: save_file(tensors, temporary))
    backbone = classifier.backbone
    model_config = {
        "format": FORMAT,
        "positively": positively.__version__,
        "method": config["method"],
        "backbone": backbone.name,
        "image_size": backbone.image_size,
        "interpolation": backbone.interpolation,
        "mean": backbone.mean,
        "std": backbone.std,
        "head": config["head"],
        "head_options": dict(classifier.head.saved_options),
        "lgconv": config["lgconv"],
        "depth": config["depth"],
        "has_exact_scores": config["depth"] == "probe" if has_exact_scores is None else has_exact_scores,
        "learn_stages": config["learn_stages"],
        "classes": list(classes),
        "digests": {folder.weights.name: _file_digest(folder.weights), "classes": _class_digest(classes)},
    }
    write_json(folder.model, model_config)


def load_model_config(folder: RunFolder) -> dict[str, Any]:
    """Content of config.json of a finished run; what later versions add to it is passed over."""
    if not folder.path.is_dir():
        raise RunError(f"There is no run folder {folder.path}.")
    again = option("resume", "auto")
    if not folder.is_finished:
        hint = f" Go on with {again}." if folder.checkpoint.exists() else ""
        raise RunError(f"{folder.path} holds no finished run.{hint}")
    try:
        model_config: dict[str, Any] = json.loads(folder.model.read_text(encoding="utf-8"))
        is_newer = model_config["format"] > FORMAT
        missing = [name for name in _NEEDED if name not in model_config]
        class_digest = model_config.get("digests", {}).get("classes")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise RunError(f"{folder.model} is damaged. Train the run again, with {again} it is quick.") from None
    if is_newer:
        raise RunError(
            f"{folder.path} was written by positively {model_config.get('positively')}; this is "
            f"{positively.__version__}. Update it: pip install -U positively."
        )
    if missing:
        raise RunError(f"{folder.model} lacks {', '.join(missing)}. Train the run again, with {again} it is quick.")
    if class_digest not in (None, _class_digest(model_config["classes"])):
        raise RunError(
            f"The classes in {folder.model} were altered after the run was saved, so that scores would go to wrong "
            f"names. Put them back, or train the run again, with {again} it is quick."
        )
    return model_config


def has_exact_scores(model_config: Mapping[str, Any]) -> bool:
    """Whether the stored scores of a run's photos have not seen their labels."""
    return bool(model_config.get("has_exact_scores", model_config["depth"] == "probe"))


def load_model(folder: RunFolder, model_config: Mapping[str, Any], backbone: nn.Module | None = None) -> Classifier:
    """Build the network of a run again. A backbone that was a module from Python has to be given again."""
    again = option("resume", "auto")
    digest = model_config.get("digests", {}).get(folder.weights.name)
    if digest not in (None, _file_digest(folder.weights)):
        raise RunError(
            f"{folder.weights} is damaged, or was altered after the run was saved: its digest is not the one in "
            f"{folder.model}. Put it back, or train the run again, with {again} it is quick."
        )
    if backbone is None and not timm.is_model(model_config["backbone"]):
        raise RunError(
            f"{folder.path} was trained with a module of your own ({model_config['backbone']}), whose code is not in "
            f"it. Give it again, from Python: po.Run({str(folder.path)!r}, backbone=module)."
        )
    with torch.random.fork_rng(devices=[]):  # random weights that are replaced at once
        classifier = create_classifier(
            backbone if backbone is not None else model_config["backbone"],
            classes=len(model_config["classes"]),
            weights="none",
            image_size=model_config["image_size"],
            head=model_config["head"],
            head_options=model_config["head_options"],
            lgconv=model_config["lgconv"],
            depth=model_config["depth"],
            learn_stages=model_config.get("learn_stages"),
        )
    try:
        classifier.load_state_dict(load_file(folder.weights))
    except (SafetensorError, RuntimeError):
        raise RunError(
            f"{folder.weights} is damaged, or does not belong to {folder.model}. Train again: with {again} it is quick."
        ) from None
    return classifier.eval().to(memory_format=torch.channels_last)


def _separate(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors each with memory of its own, as safetensors wants them: weights that are shared stand under all names."""
    tensors: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in state.items():
        tensor = tensor.detach().cpu().contiguous()
        memory = tensor.untyped_storage().data_ptr()
        tensors[name] = tensor.clone() if memory in seen else tensor
        seen.add(memory)
    return tensors


def _file_digest(path: Path) -> str:
    """What ``b2sum`` prints of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def _class_digest(classes: Sequence[str]) -> str:
    return hashlib.blake2b(json.dumps(list(classes)).encode()).hexdigest()


_PROBABILITIES = """Scores are probabilities that an image carries a tag, found from labels the classifier did not see
(`calibration.safetensors`). A tag is given where its probability reaches the class's cut (`thresholds.json`: the
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
    given = ", ".join(f"{name} {value}" for name, value in config["options"].items()) or "the defaults"
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
