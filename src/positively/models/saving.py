"""Saving and loading the network of a run: safetensors weights and the configuration to build it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import timm
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from positively.errors import RunError, option
from positively.files import write_with
from positively.models import Classifier, create_classifier
from positively.runs.folder import RunFolder
from positively.runs.saving import write_model_config


def save_model(
    folder: RunFolder,
    classifier: Classifier,
    classes: Sequence[str],
    config: Mapping[str, Any],
    has_exact_scores: bool | None = None,
) -> None:
    """Write model.safetensors, config.json and the manifest.

    Args:
        folder: The run folder.
        classifier: The network.
        classes: Class names, in order.
        config: Configuration of the training.
        has_exact_scores: Whether the stored out-of-sample scores come from a network that has not seen the labels;
            default: True at depth 'probe'.
    """
    tensors = _separate(classifier.state_dict())
    write_with(folder.weights, lambda temporary: save_file(tensors, temporary))
    backbone = classifier.backbone
    described = {
        "kind": "network",
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
    }
    write_model_config(folder, described, classes)


def load_model(folder: RunFolder, model_config: Mapping[str, Any], backbone: nn.Module | None = None) -> Classifier:
    """Load the network of a run. A backbone that was a user-defined module must be passed again."""
    again = option("resume", "auto")
    if backbone is None and not timm.is_model(model_config["backbone"]):
        raise RunError(
            f"{folder.path} was trained with a module of your own ({model_config['backbone']}), which is not stored. "
            f"Pass it in Python: po.Run({str(folder.path)!r}, backbone=module)."
        )
    with torch.random.fork_rng(devices=[]):  # the random weights are replaced below
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
        classifier.load_state_dict(load_file(folder.verified(folder.weights)))
    except (SafetensorError, RuntimeError):
        raise RunError(
            f"{folder.weights} is damaged or does not belong to {folder.model}. Train again with {again}."
        ) from None
    return classifier.eval().to(memory_format=torch.channels_last)


def _separate(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copy tensors that share memory, which safetensors does not allow."""
    tensors: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in state.items():
        tensor = tensor.detach().cpu().contiguous()
        memory = tensor.untyped_storage().data_ptr()
        tensors[name] = tensor.clone() if memory in seen else tensor
        seen.add(memory)
    return tensors
