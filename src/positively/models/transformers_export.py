"""A run in the ecosystem's own form: a folder that ``transformers`` and ``timm`` load without this package.

``transformers.pipeline("image-classification", model=FOLDER)`` and ``timm.create_model("local-dir:FOLDER",
pretrained=True)``: timm's network with its own classifier, a plain linear layer. A run whose head is a kernel's has
such a layer solved beside it; what no linear layer on a timm network can be (LgConv, a graph head) is refused, and ONNX
does it.
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
"""Largest difference of a logit to ours, relative to the largest one, with which timm's network is the same."""
_POOLING = {"average": "avg", "max": "max", "mix": "avgmax"}
_NEVER = 1 - 1e-6
"""What a cut of a class that is never given is taken for: no score reaches one half then."""


def export_transformers(run: Run, out: str | Path | None = None, *, fold_thresholds: bool = False) -> Path:
    """Write a run as a folder for ``transformers`` and ``timm``, compared with ours before it is written.

    Args:
        run: The run; of a kernel's head, the plain one solved beside it is taken.
        out: The folder; default: transformers/ in the run folder.
        fold_thresholds: Move the threshold of each class into its bias, so that 0.5 is the threshold of all classes.

    Raises:
        RunError: If no linear layer on a timm network gives what the run gives.
    """
    folder = Path(out) if out is not None else run.path / "transformers"
    refuse_foreign(folder, lambda _: _is_export(folder), "DIR")
    linear = Run(
        run.path, run.backbone, "cpu", head="linear" if run.is_probe else None, min_precision=run.min_precision
    )
    classifier, head = _plain(run, load_network(linear))
    name = classifier.backbone.name.partition(".")[0]
    network, arguments = _timm_network(name, classifier, head, run)
    cuts = _linear_thresholds(run)
    tensors = {key: tensor.detach().cpu().contiguous().clone() for key, tensor in network.state_dict().items()}
    if fold_thresholds:
        key = f"{pretrained_config(network)['classifier']}.bias"
        tensors[key] -= torch.from_numpy(logit(np.where(np.isfinite(cuts), cuts, _NEVER))).to(tensors[key])
        cuts = np.where(np.isfinite(cuts), 0.5, np.inf)
    folder.mkdir(parents=True, exist_ok=True)
    write_with(folder / "model.safetensors", lambda temporary: save_file(tensors, temporary, {"format": "pt"}))
    write_text(folder / "README.md", _card(run, fold_thresholds))
    config = _config(run, classifier.backbone, network, arguments, cuts)
    write_json(folder / "config.json", config)  # last: it says that the folder is whole
    run.folder.record(*(folder / name for name in ("model.safetensors", "README.md", "config.json")))
    return folder


def _linear_thresholds(run: Run) -> npt.NDArray[np.float64]:
    """Thresholds of the linear head."""
    is_kernel = run.model_config["head"] == "kernel"
    return Run(run.path, head="linear" if is_kernel else None, min_precision=run.min_precision).thresholds


def _plain(run: Run, model: Classifier) -> tuple[Classifier, LinearHead]:
    """The run's network, and the linear head it has or has beside it."""
    way_out = f"Write {option('format', 'onnx')} in its place, which holds every network."
    head = model.head.as_linear() if isinstance(model.head, KernelHead) else model.head
    if not isinstance(head, LinearHead) or head.normalize:
        raise RunError(
            f"The head of {run.path} is no linear layer on pooled features, which is what timm has. {way_out}"
        )
    if any(isinstance(module, LgConv) for module in model.modules()):
        raise RunError(f"{run.path} has LgConv, which timm does not know. {way_out}")
    if not timm.is_model(model.backbone.name) or _is_ours(model.backbone.name):
        raise RunError(f"The backbone of {run.path}, {model.backbone.name}, is none that timm itself has. {way_out}")
    return model, head


def _is_ours(name: str) -> bool:
    """Whether timm knows the network only where this package is installed."""
    return timm.model_entrypoint(name.partition(".")[0]).__module__.startswith("positively")


def _timm_network(name: str, classifier: Classifier, head: LinearHead, run: Run) -> tuple[nn.Module, dict[str, Any]]:
    """Timm's network with our weights, and the arguments with which it gives our logits."""
    pooling = _POOLING[head.pooling]
    size, classes = classifier.backbone.image_size, head.linear.out_features
    ours = Classifier(classifier.backbone, head).eval()
    images = torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(0))
    is_sized = pretrained_config(classifier.backbone.network).get("fixed_input_size")
    sized: dict[str, Any] = {"img_size": size} if is_sized else {}
    # A transformer pools otherwise unless told: the mean of its tokens, after the norm that it has for them.
    ways: list[dict[str, Any]] = [{}, {"global_pool": pooling}, {"global_pool": pooling, "fc_norm": False}]
    for arguments in ({**sized, **way} for way in ways):
        try:
            with torch.random.fork_rng(devices=[]):  # random weights that are replaced at once
                network: nn.Module = timm.create_model(name, num_classes=classes, **arguments).eval()
            last = pretrained_config(network)["classifier"]
            tensors = {**classifier.backbone.network.state_dict(), f"{last}.bias": head.linear.bias}
            tensors[f"{last}.weight"] = head.linear.weight.reshape(network.get_parameter(f"{last}.weight").shape)
            network.load_state_dict(tensors)
            with torch.inference_mode():
                expected, given = ours(images), network(_normalized(ours, images))
        except (TypeError, RuntimeError, AssertionError, AttributeError, KeyError):
            continue  # an argument this network has not, or a classifier that is more than a layer
        if (given - expected).abs().max() <= TOLERANCE * expected.abs().max().clamp_min(1):
            return network, arguments
    raise RunError(
        f"timm's {name} with a linear layer does not give what {run.path} gives. Write {option('format', 'onnx')} in "
        "its place, which holds every network."
    )


def _normalized(classifier: Classifier, images: Tensor) -> Tensor:
    return (images - classifier.mean) / classifier.std


def _config(
    run: Run, backbone: Backbone, network: nn.Module, arguments: dict[str, Any], cuts: npt.NDArray[np.float64]
) -> dict[str, Any]:
    config = pretrained_config(network)
    return {
        "model_type": "timm_wrapper",
        "architectures": ["TimmWrapperForImageClassification"],
        "architecture": backbone.name.partition(".")[0],
        "num_classes": len(run.classes),
        "num_features": backbone.channels,
        "label_names": run.classes,
        "problem_type": "multi_label_classification",  # without it the pipeline takes a softmax
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
            "cuts": [float(cut) if np.isfinite(cut) else None for cut in cuts],
        },
    }


def _card(run: Run, fold_thresholds: bool) -> str:
    cut = (
        "0.5 for every class (its own is in the bias)"
        if fold_thresholds
        else "one a class, in `config.json` under `positively`"
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

Scores are sigmoids of the logits, each class by itself. The cut from which on a tag is given is
{cut}; a class whose cut is null could not be learned.
"""


def _quality(run: Run) -> str:
    """What the linear head is worth beside the kernel's, by labels that neither saw."""
    if run.model_config["head"] != "kernel" or not run.folder.calibration.exists():
        return ""
    from positively.calibration import pooled_log_rank

    worth = {name: pooled_log_rank(run.folder.read_calibration(name).summary) for name in ("kernel", "linear")}
    return (
        "It is the plain head that was solved beside the run's own, which is a kernel's. How high tags rank that were "
        f"not shown (mean −log of the share of photos above): {worth['linear']:.2f} here, {worth['kernel']:.2f} there."
    )


def _is_export(folder: Path) -> bool:
    """Whether a folder was written here."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return "positively" in config
    except (OSError, ValueError):
        return False
