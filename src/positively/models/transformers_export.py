"""Export of a run as a folder that ``transformers`` and ``timm`` load without this package.

Load it with ``transformers.pipeline("image-classification", model=FOLDER)`` or ``timm.create_model("local-dir:FOLDER",
pretrained=True)``. The folder holds a timm network with a linear classifier. For a probe with a kernel head this is the
linear layer fitted with it. Runs with LgConv or a graph head cannot be exported this way; use ONNX.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import timm
import torch
from safetensors.torch import save_file
from scipy.special import logit
from torch import Tensor, nn

import positively
from positively.errors import RunError, option
from positively.files import refuse_foreign, write_json, write_text, write_with
from positively.models import Backbone, Classifier, KernelHead, LgConv, LinearHead
from positively.models.predictor import load_network
from positively.models.weights import pretrained_config
from positively.runs.run import Run

TOLERANCE = 1e-5
"""Largest accepted difference of a logit, relative to the largest one."""
_POOLING = {"average": "avg", "max": "max", "mix": "avgmax"}
_NEVER = 1 - 1e-6
"""Stand-in for an infinite threshold: no score of the class then reaches 0.5."""


def export_transformers(run: Run, out: str | Path | None = None, *, fold_thresholds: bool = False) -> Path:
    """Export a run as a folder for ``transformers`` and ``timm``. The outputs are compared before anything is written.

    Args:
        run: The run. For a kernel head, the linear head fitted with it is exported.
        out: The folder; default: transformers/ in the run folder.
        fold_thresholds: Whether to subtract thresholds from the biases, so that 0.5 is the threshold of all classes.

    Returns:
        The folder.

    Raises:
        RunError: If the run cannot be represented as a timm network with a linear layer.
    """
    folder = Path(out) if out is not None else run.path / "transformers"
    refuse_foreign(folder, lambda _: _is_export(folder), "DIR")
    linear = Run(
        run.path, run.backbone, "cpu", head="linear" if run.is_probe else None, min_precision=run.min_precision
    )
    classifier, head = _plain(run, load_network(linear))
    name = classifier.backbone.name.partition(".")[0]
    network, arguments = _timm_network(name, classifier, head, run)
    thresholds = _linear_thresholds(run)
    tensors = {key: tensor.detach().cpu().contiguous().clone() for key, tensor in network.state_dict().items()}
    if fold_thresholds:
        key = f"{pretrained_config(network)['classifier']}.bias"
        tensors[key] -= torch.from_numpy(logit(np.where(np.isfinite(thresholds), thresholds, _NEVER))).to(tensors[key])
        thresholds = np.where(np.isfinite(thresholds), 0.5, np.inf)
    folder.mkdir(parents=True, exist_ok=True)
    write_with(folder / "model.safetensors", lambda temporary: save_file(tensors, temporary, {"format": "pt"}))
    write_text(folder / "README.md", _card(run, fold_thresholds))
    config = _config(run, classifier.backbone, network, arguments, thresholds)
    write_json(folder / "config.json", config)  # written last, as the mark of a complete folder
    run.folder.record(*(folder / name for name in ("model.safetensors", "README.md", "config.json")))
    return folder


def _linear_thresholds(run: Run) -> npt.NDArray[np.float64]:
    """Thresholds of the linear head."""
    is_kernel = run.model_config["head"] == "kernel"
    return Run(run.path, head="linear" if is_kernel else None, min_precision=run.min_precision).thresholds


def _plain(run: Run, model: Classifier) -> tuple[Classifier, LinearHead]:
    """The network of a run, and its linear head."""
    way_out = f"Pass {option('format', 'onnx')} instead, which supports every network."
    head = model.head.as_linear() if isinstance(model.head, KernelHead) else model.head
    if not isinstance(head, LinearHead) or head.normalize:
        raise RunError(
            f"The head of {run.path} is not a linear layer on pooled embeddings, as timm requires. {way_out}"
        )
    if any(isinstance(module, LgConv) for module in model.modules()):
        raise RunError(f"{run.path} uses LgConv, which timm does not support. {way_out}")
    if not timm.is_model(model.backbone.name) or _is_ours(model.backbone.name):
        raise RunError(f"The backbone of {run.path}, {model.backbone.name}, is not part of timm. {way_out}")
    return model, head


def _is_ours(name: str) -> bool:
    """Whether the model is registered in timm by this package."""
    return timm.model_entrypoint(name.partition(".")[0]).__module__.startswith("positively")


def _timm_network(name: str, classifier: Classifier, head: LinearHead, run: Run) -> tuple[nn.Module, dict[str, Any]]:
    """A timm network with our weights, and the arguments with which its logits equal ours."""
    pooling = _POOLING[head.pooling]
    size, classes = classifier.backbone.image_size, head.linear.out_features
    ours = Classifier(classifier.backbone, head).eval()
    images = torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(0))
    is_sized = pretrained_config(classifier.backbone.network).get("fixed_input_size")
    sized: dict[str, Any] = {"img_size": size} if is_sized else {}
    # Transformers pool differently by default: the mean of the tokens, after a norm of its own.
    ways: list[dict[str, Any]] = [{}, {"global_pool": pooling}, {"global_pool": pooling, "fc_norm": False}]
    for arguments in ({**sized, **way} for way in ways):
        try:
            with torch.random.fork_rng(devices=[]):  # the random weights are replaced below
                network: nn.Module = timm.create_model(name, num_classes=classes, **arguments).eval()
            last = pretrained_config(network)["classifier"]
            tensors = {**classifier.backbone.network.state_dict(), f"{last}.bias": head.linear.bias}
            tensors[f"{last}.weight"] = head.linear.weight.reshape(network.get_parameter(f"{last}.weight").shape)
            network.load_state_dict(tensors)
            with torch.inference_mode():
                expected, given = ours(images), network(_normalized(ours, images))
        except (TypeError, RuntimeError, AssertionError, AttributeError, KeyError):
            continue  # the network lacks this argument, or its classifier is not a single layer
        if (given - expected).abs().max() <= TOLERANCE * expected.abs().max().clamp_min(1):
            return network, arguments
    raise RunError(
        f"timm's {name} with a linear layer gives other outputs than {run.path}. Pass {option('format', 'onnx')} "
        "instead, which supports every network."
    )


def _normalized(classifier: Classifier, images: Tensor) -> Tensor:
    return (images - classifier.mean) / classifier.std


def _config(
    run: Run, backbone: Backbone, network: nn.Module, arguments: dict[str, Any], thresholds: npt.NDArray[np.float64]
) -> dict[str, Any]:
    config = pretrained_config(network)
    return {
        "model_type": "timm_wrapper",
        "architectures": ["TimmWrapperForImageClassification"],
        "architecture": backbone.name.partition(".")[0],
        "num_classes": len(run.classes),
        "num_features": backbone.channels,
        "label_names": run.classes,
        "problem_type": "multi_label_classification",  # the default of the pipeline is softmax
        "model_args": arguments,
        "pretrained_cfg": {
            "custom_load": False,
            "input_size": [3, backbone.image_size, backbone.image_size],
            "fixed_input_size": bool(config.get("fixed_input_size")),
            "interpolation": backbone.interpolation,
            "crop_pct": 1.0,
            "crop_mode": "squash",
            "mean": list(backbone.mean),
            "std": list(backbone.std),
            "num_classes": len(run.classes),
            "first_conv": config.get("first_conv"),
            "classifier": config["classifier"],
        },
        "positively": {
            "version": positively.__version__,
            "method": run.model_config["method"],
            "thresholds": [float(value) if np.isfinite(value) else None for value in thresholds],
        },
    }


def _card(run: Run, fold_thresholds: bool) -> str:
    threshold = (
        "0.5 for every class (the thresholds are part of the biases)"
        if fold_thresholds
        else "one per class, in `config.json` under `positively`"
    )
    return f"""---
library_name: transformers
pipeline_tag: image-classification
tags: [multi-label-classification, timm, positively]
---

# {run.path.resolve().name}

A multi-label image classifier with {len(run.classes)} classes: `{run.model_config["backbone"]}` with a linear head,
trained by positively {positively.__version__}. {_quality(run)}

    from transformers import pipeline
    pipeline("image-classification", model="{run.path.resolve().name}/transformers")("photo.jpg", top_k=1000)

    import timm
    network = timm.create_model("local-dir:{run.path.resolve().name}/transformers", pretrained=True)

Scores are sigmoids of the logits. The threshold from which a tag is assigned is {threshold}; a class with a null
threshold could not be learned.
"""


def _quality(run: Run) -> str:
    """Compare the linear head with the kernel head on out-of-sample labels."""
    if run.model_config["head"] != "kernel" or not run.folder.calibration.exists():
        return ""
    from positively.calibration import pooled_log_rank

    worth = {name: pooled_log_rank(run.folder.read_calibration(name).summary) for name in ("kernel", "linear")}
    return (
        "Its linear head was fitted together with the kernel head of the run. Mean −log of the share of images ranked "
        f"above a held-out tag (higher is better): {worth['linear']:.2f} here, {worth['kernel']:.2f} for the kernel."
    )


def _is_export(folder: Path) -> bool:
    """Whether a folder was written by this module."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return "positively" in config
    except (OSError, ValueError):
        return False
