"""Pretrained weights: from timm's hub or a file, always safetensors, every name and shape checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import huggingface_hub
from safetensors import SafetensorError
from safetensors.torch import load_file
from timm.models import PretrainedCfg
from torch import Tensor, nn

from positively.errors import WeightsError, and_more, option, short

WAYS_OUT = (
    f"Pass {option('weights', 'FILE')} (a .safetensors file of this timm model), or run once on a machine with network "
    "and copy its Hugging Face cache here (HF_HOME, usually ~/.cache/huggingface), or pass "
    f"{option('weights', 'none')} to start from random weights."
)
HOW_TO_CONVERT = (
    "To convert one you trust: safetensors.torch.save_file(torch.load('weights.pth', weights_only=True), "
    "'weights.safetensors')."
)
_SECONDS_TO_ANSWER = 10


def load_weights(network: nn.Module, file: str) -> None:
    """Load a ``.safetensors`` file into ``network``; every name and shape has to fit, but for timm's classifier.

    Tensors take the dtype of the network's own.

    Raises:
        WeightsError: If the file is missing or broken, or has names or shapes that differ.
    """
    path = Path(file).expanduser()
    if not path.is_file():
        raise WeightsError(f"There is no weights file {file}.")
    try:
        given = load_file(path)
    except (SafetensorError, OSError) as reason:
        raise WeightsError(f"{file} cannot be read as safetensors: {short(reason)}.") from reason
    fit_weights(network, given, file)
    if config := pretrained_config(network):  # as timm notes it: what was dropped can still be found
        vars(network)["pretrained_cfg"] = {**config, "file": str(path)}


def fit_weights(network: nn.Module, given: dict[str, Tensor], source: str) -> None:
    """Put tensors into ``network``; every name and shape has to fit, but for timm's classifier.

    Args:
        network: What takes them.
        given: Tensors by timm's names.
        source: Where they are from, for messages.

    Raises:
        WeightsError: If names or shapes differ.
    """
    config = pretrained_config(network)
    classifier = config.get("classifier") or ()
    dropped = tuple(f"{name}." for name in ((classifier,) if isinstance(classifier, str) else classifier))
    given = {name: tensor for name, tensor in given.items() if not name.startswith(dropped)}
    wanted = {name: tensor for name, tensor in network.state_dict().items() if not name.startswith(dropped)}
    problems = {
        "missing from the file": [name for name in wanted if name not in given],
        "unknown to the network": [name for name in given if name not in wanted],
        "of another shape": [
            f"{name} ({_shape(given[name])} in the file, {_shape(tensor)} in the network)"
            for name, tensor in wanted.items()
            if name in given and given[name].shape != tensor.shape
        ],
    }
    told = "; ".join(f"{len(names)} {what}: {and_more(names, 3)}" for what, names in problems.items() if names)
    if told:
        raise WeightsError(
            f"{source} does not fit {type(network).__name__}. Tensors {told}. It must hold the weights of exactly this "
            "timm model."
        )
    network.load_state_dict(given, strict=False)


def fetch_from_hub(name: str, config: PretrainedCfg) -> str:
    """Path of timm's safetensors file for this model, from the cache if it is there, else from the hub.

    timm would do this by itself, but falls back on pickle, and tries for a minute where there is no network.
    """
    if not config.has_weights:
        raise WeightsError(
            f"timm has no pretrained weights for {name!r}. Take another backbone, pass {option('weights', 'FILE')} "
            f"(a .safetensors file), or pass {option('weights', 'none')} to start from random weights."
        )
    if not config.hf_hub_id:
        raise WeightsError(
            f"timm has the weights of {name!r} only as a file that could run code when loaded ({config.url}). "
            f"Convert it, then pass {option('weights', 'FILE')}. {HOW_TO_CONVERT}"
        )
    repository, _, revision = config.hf_hub_id.partition("@")
    place: dict[str, Any] = {"repo_id": repository, "filename": "model.safetensors", "revision": revision or None}
    try:
        cached = huggingface_hub.try_to_load_from_cache(**place)
        if isinstance(cached, str):
            return cached
        # One question without retries, so that a machine without network hears about it in seconds.
        huggingface_hub.get_hf_file_metadata(huggingface_hub.hf_hub_url(**place), timeout=_SECONDS_TO_ANSWER)
        return str(huggingface_hub.hf_hub_download(**place))
    except Exception as reason:  # every version of the hub's client has an exception tree of its own
        raise WeightsError(
            f"The pretrained weights of {name!r} cannot be fetched from the Hugging Face hub ({short(reason)}). "
            f"{WAYS_OUT}"
        ) from reason


def fetch_folder(repository: str, wanted: Sequence[str], complete: Callable[[Path], bool]) -> Path:
    """Folder with the ``wanted`` files (patterns) of a repository of the hub, from the cache if it is ``complete``."""
    place: dict[str, Any] = {"repo_id": repository, "allow_patterns": list(wanted)}
    try:
        cached = Path(huggingface_hub.snapshot_download(**place, local_files_only=True))
        if complete(cached):
            return cached
    except Exception:  # not in the cache; every version has a tree of its own
        pass
    try:
        # Again one question without retries.
        huggingface_hub.model_info(repository, timeout=_SECONDS_TO_ANSWER)
        return Path(huggingface_hub.snapshot_download(**place))
    except Exception as reason:
        raise WeightsError(
            f"{repository!r} is no folder, and cannot be fetched from the Hugging Face hub ({short(reason)})."
        ) from reason


def pretrained_config(network: nn.Module) -> dict[str, Any]:
    """What timm says of a network (sizes, mean, classifier …); empty for a module from elsewhere."""
    config = getattr(network, "pretrained_cfg", None) or getattr(network, "default_cfg", None) or {}
    return asdict(config) if isinstance(config, PretrainedCfg) else dict(config)


def _shape(tensor: Tensor) -> str:
    return "×".join(str(size) for size in tensor.shape) or "scalar"
