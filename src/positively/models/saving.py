"""The network of a run: weights as safetensors, and the few values needed to build it again."""

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
    """Build the network of a run again. A backbone that was a module from Python has to be given again."""
    again = option("resume", "auto")
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
        classifier.load_state_dict(load_file(folder.verified(folder.weights)))
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
