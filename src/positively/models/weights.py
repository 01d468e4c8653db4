"""Pretrained weights from the hub or a file. Only safetensors are loaded; names and shapes are checked."""

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
    f"Pass {option('weights', 'FILE')} (a .safetensors file of this timm model), copy the Hugging Face cache of a "
    "machine with network to this one (HF_HOME, usually ~/.cache/huggingface), or pass "
    f"{option('weights', 'none')} to start from random weights."
)
HOW_TO_CONVERT = (
    "To convert a file you trust: safetensors.torch.save_file(torch.load('weights.pth', weights_only=True), "
    "'weights.safetensors')."
)
_SECONDS_TO_ANSWER = 10


def load_weights(network: nn.Module, file: str) -> None:
    """Load a ``.safetensors`` file into a network. All names and shapes except timm's classifier must match.

    Args:
        network: The network; tensors are converted to its dtype.
        file: The file.

    Raises:
        WeightsError: If the file is missing or damaged, or names or shapes differ.
    """
    path = Path(file).expanduser()
    if not path.is_file():
        raise WeightsError(f"Weights file {file} not found.")
    try:
        given = load_file(path)
    except (SafetensorError, OSError) as reason:
        raise WeightsError(f"{file} cannot be read as safetensors: {short(reason)}.") from reason
    fit_weights(network, given, file)
    if config := pretrained_config(network):  # record the file as timm does, to find dropped tensors later
        vars(network)["pretrained_cfg"] = {**config, "file": str(path)}


def fit_weights(network: nn.Module, given: dict[str, Tensor], source: str) -> None:
    """Copy tensors into a network. All names and shapes except timm's classifier must match.

    Args:
        network: The network.
        given: Tensors by timm's names.
        source: Name of the source, for error messages.

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
    summary = "; ".join(f"{len(names)} {what}: {and_more(names, 3)}" for what, names in problems.items() if names)
    if summary:
        raise WeightsError(
            f"{source} does not fit {type(network).__name__}. Tensors {summary}. Pass the weights of exactly this timm "
            "model."
        )
    network.load_state_dict(given, strict=False)


def fetch_from_hub(name: str, config: PretrainedCfg) -> str:
    """Path of timm's safetensors file for a model, from the cache or the hub.

    timm itself would fall back to pickle files, and retry for a minute without network.
    """
    if not config.has_weights:
        raise WeightsError(
            f"timm has no pretrained weights for {name!r}. Use another backbone, pass {option('weights', 'FILE')} "
            f"(a .safetensors file), or pass {option('weights', 'none')} to start from random weights."
        )
    if not config.hf_hub_id:
        raise WeightsError(
            f"timm has the weights of {name!r} only as a file that can run code when it is loaded ({config.url}). "
            f"Convert it, then pass {option('weights', 'FILE')}. {HOW_TO_CONVERT}"
        )
    repository, _, revision = config.hf_hub_id.partition("@")
    place: dict[str, Any] = {"repo_id": repository, "filename": "model.safetensors", "revision": revision or None}
    try:
        cached = huggingface_hub.try_to_load_from_cache(**place)
        if isinstance(cached, str):
            return cached
        # One request without retries, so that a machine without network fails within seconds.
        huggingface_hub.get_hf_file_metadata(huggingface_hub.hf_hub_url(**place), timeout=_SECONDS_TO_ANSWER)
        return str(huggingface_hub.hf_hub_download(**place))
    except Exception as reason:  # the exceptions differ between versions of huggingface_hub
        raise WeightsError(
            f"The pretrained weights of {name!r} cannot be downloaded from the Hugging Face hub ({short(reason)}). "
            f"{WAYS_OUT}"
        ) from reason


def fetch_folder(repository: str, wanted: Sequence[str], complete: Callable[[Path], bool]) -> Path:
    """Folder with the ``wanted`` files (patterns) of a hub repository, from the cache if it is ``complete``."""
    place: dict[str, Any] = {"repo_id": repository, "allow_patterns": list(wanted)}
    try:
        cached = Path(huggingface_hub.snapshot_download(**place, local_files_only=True))
        if complete(cached):
            return cached
    except Exception:  # not in the cache; the exceptions differ between versions
        pass
    try:
        # One request without retries, as above.
        huggingface_hub.model_info(repository, timeout=_SECONDS_TO_ANSWER)
        return Path(huggingface_hub.snapshot_download(**place))
    except Exception as reason:
        raise WeightsError(
            f"{repository!r} is not a folder and cannot be downloaded from the Hugging Face hub ({short(reason)})."
        ) from reason


def pretrained_config(network: nn.Module) -> dict[str, Any]:
    """Timm's configuration of a network (sizes, mean, classifier …); empty for other modules."""
    config = getattr(network, "pretrained_cfg", None) or getattr(network, "default_cfg", None) or {}
    return asdict(config) if isinstance(config, PretrainedCfg) else dict(config)


def _shape(tensor: Tensor) -> str:
    return "×".join(str(size) for size in tensor.shape) or "scalar"
