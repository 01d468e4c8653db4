"""The model for use: weights as safetensors, and the few facts needed to build the network again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

import positively
from positively.errors import RunError
from positively.files import write_json, write_text, write_with
from positively.models import Classifier, create_classifier
from positively.runs.folder import FORMAT, RunFolder


def save_model(folder: RunFolder, classifier: Classifier, classes: tuple[str, ...], config: Mapping[str, Any]) -> None:
    """Write model.safetensors and config.json."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in classifier.state_dict().items()}
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
        "word_vector_size": tensors["head.word_vectors"].shape[1] if config["word_vectors"] else None,
        "pooling": config["pooling"],
        "lgconv": config["lgconv"],
        "depth": config["depth"],
        "learn_stages": config["learn_stages"],
        "classes": classes,
    }
    write_json(folder.model, model_config)


def load_model_config(folder: RunFolder) -> dict[str, Any]:
    """Facts of a finished run's model."""
    if not folder.path.is_dir():
        raise RunError(f"There is no run folder {folder.path}.")
    if not folder.is_finished:
        hint = " Go on with --resume auto." if folder.checkpoint.exists() else ""
        raise RunError(f"{folder.path} holds no finished run.{hint}")
    try:
        model_config: dict[str, Any] = json.loads(folder.model.read_text(encoding="utf-8"))
        is_newer = model_config["format"] > FORMAT
    except (ValueError, KeyError, TypeError):
        raise RunError(f"{folder.model} is damaged. Train the run again, with --resume auto it is quick.") from None
    if is_newer:
        raise RunError(
            f"{folder.path} was written by positively {model_config['positively']}; this is {positively.__version__}. "
            "Update it: pip install -U positively."
        )
    return model_config


def load_model(folder: RunFolder, model_config: dict[str, Any], backbone: nn.Module | None = None) -> Classifier:
    """Build the network of a run again. A backbone that was a module from Python has to be given again."""
    # Vectors that do not learn come with the weights: only their place has to be there.
    size = model_config.get("word_vector_size")
    classifier = create_classifier(
        backbone if backbone is not None else model_config["backbone"],
        classes=len(model_config["classes"]),
        weights="none",
        image_size=model_config["image_size"],
        head=model_config.get("head", "linear"),
        head_options={} if size is None else {"word_vectors": torch.zeros(len(model_config["classes"]), size)},
        pooling=model_config["pooling"],
        lgconv=model_config["lgconv"],
        depth=model_config["depth"],
        learn_stages=model_config.get("learn_stages"),
    )
    try:
        classifier.load_state_dict(load_file(folder.weights))
    except (SafetensorError, RuntimeError):
        raise RunError(
            f"{folder.weights} is damaged, or does not belong to {folder.model}. Train again: with --resume auto "
            "it is quick."
        ) from None
    return classifier.eval().to(memory_format=torch.channels_last)


def write_card(folder: RunFolder, config: Mapping[str, Any], table_facts: str, history: list[dict[str, float]]) -> None:
    """Write the model card: what the model is, what it learned from, what its scores mean."""
    last = history[-1] if history else {}
    measured = "\n".join(f"| {name} | {value:.4g} |" for name, value in last.items())
    given = ", ".join(f"{name} {value}" for name, value in config["options"].items()) or "as published"
    write_text(
        folder.card,
        f"""# {folder.path.name}

A multi-label image classifier trained with `{config['method']}` (options: {given}) by positively
{positively.__version__}: backbone `{config['backbone']}` at {config['image_size']} px, depth `{config['depth']}`,
seed {config['seed']}.

Learned from {table_facts}.

A tag is predicted where its score reaches the class's threshold (`thresholds.json`), found on images held out from
training. Scores order images by how likely they carry a tag; they are not probabilities.

    positively predict {folder.path} photo.jpg
    positively evaluate {folder.path} test.csv --blank negative

The last epoch:

| measure | value |
|---|---|
{measured}
""",
    )
