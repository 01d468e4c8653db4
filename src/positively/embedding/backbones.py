"""Backbones by name: a table of ONNX files, your own ONNX file, or (with torch) any timm model."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from positively.embedding.base import Embedder, Pooling, Preprocessing
from positively.embedding.cache import network_folder
from positively.embedding.onnx import BackboneEmbedder
from positively.errors import ConfigError, WeightsError, option, short
from positively.files import write_with
from positively.machine import trains_on_gpu
from positively.registry import EMBEDDERS, TORCH

_HALF, _SECONDS_TO_ANSWER = (0.5, 0.5, 0.5), 10
_CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
_PREPROCESSING = "preprocessing"
"""Metadata key of the preprocessing in ONNX files that this package writes."""


@dataclass(frozen=True)
class Row:
    """One backbone of the table."""

    timm: str | None
    """Name of the timm model with the same weights."""
    preprocessing: Preprocessing
    width: int
    licence: str
    megabytes: int
    repository: str | None = None
    """Repository on the Hugging Face hub; None if an extra or timm provides the weights."""
    file: str = "model.onnx"
    revision: str | None = None
    sha256: str | None = None


BACKBONES = {
    "lite0": Row("tf_efficientnet_lite0", Preprocessing(224, _HALF, _HALF), 1280, "Apache-2.0", 14),
    "resnet50": Row(None, Preprocessing(224, resize="crop"), 2048, "Apache-2.0", 98, "Qdrant/resnet50-onnx"),
    "clip-vit-b32": Row(
        None, Preprocessing(224, *_CLIP, resize="crop"), 512, "MIT", 352, "Qdrant/clip-ViT-B-32-vision"
    ),
    "siglip2-base": Row(
        None,
        Preprocessing(224, _HALF, _HALF, "bilinear"),
        768,
        "Apache-2.0",
        186,
        "onnx-community/siglip2-base-patch16-224-ONNX",
        "onnx/vision_model_fp16.onnx",
        "ba1f3b0843f24bc5417d38e19c37b287d719b2f4",
        "a1959f7bd3993a607e48839f6d01e25b876fe76afda301b028b78eef68aabd95",
    ),
}
"""Backbones that do not need torch."""
DEFAULT = "lite0"
"""The backbone that 'auto' stands for."""


@dataclass(frozen=True)
class Network:
    """A backbone on disk."""

    path: Path
    preprocessing: Preprocessing


def register_embedder(name: str) -> Callable[[type[Embedder]], type[Embedder]]:
    """Decorator that registers your own embedder class, so that its name can be used as a backbone.

    Args:
        name: The name. The class is called without arguments.
    """
    return EMBEDDERS.register(name)


def check_backbone(name: str, weights: str = "pretrained") -> None:
    """Check that a backbone and its weights exist, without loading them.

    Raises:
        ConfigError: if there is no such backbone; the message suggests similar names.
        WeightsError: if there is no such file of weights.
    """
    if weights not in ("pretrained", "none"):
        if not weights.endswith(".safetensors"):
            raise WeightsError(
                f"{option('weights', weights)}: pass 'pretrained', 'none' or a .safetensors file. Other files are "
                "pickled and could run code when loaded."
            )
        if not Path(weights).expanduser().is_file():
            raise WeightsError(f"There is no weights file {weights}.")
    if name.endswith(".onnx"):
        if not Path(name).expanduser().is_file():
            raise ConfigError(f"{option('backbone', name)}: the file does not exist.")
        return
    if name in ("auto", *BACKBONES) or name in EMBEDDERS:
        return
    known = timm_models()
    if name.partition(".")[0] in known:
        return
    near = difflib.get_close_matches(name, [*BACKBONES, *EMBEDDERS, *known], n=3)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    others = "any model of timm" if known else "any model of timm after pip install 'positively[torch]'"
    raise ConfigError(
        f"There is no backbone '{name}'. Choose {', '.join([*BACKBONES, *EMBEDDERS])}, any .onnx file, or "
        f"{others}.{hint}"
    )


@cache
def timm_models() -> frozenset[str]:
    """Names of timm's models, read from its source because its import takes seconds; empty if not installed."""
    found = find_spec("timm")
    if found is None or found.origin is None:
        return frozenset()
    folders = Path(found.origin).parent / "models", Path(__file__).parents[1] / "models"  # timm's, and those added here
    texts = [path.read_text(encoding="utf-8") for folder in folders for path in folder.glob("*.py")]
    named = {name for text in texts for name in re.findall(r"@register_model\s+def (\w+)\(", text)}
    renamed = [part for text in texts for part in re.findall(r"register_model_deprecations\((.*?)\}\)", text, re.S)]
    return frozenset(named.union(*(re.findall(r"['\"]([\w]+)['\"]\s*:", part) for part in renamed)))


def find_embedder(
    name: str = "auto",
    *,
    weights: str = "pretrained",
    image_size: int | None = None,
    pooling: Pooling = "average",
    window: int = 0,
    seed: int = 0,
) -> Embedder:
    """Make an embedder from the name of a backbone.

    Args:
        name: A name in :data:`BACKBONES`, an .onnx file, a registered embedder, or a timm model.
        weights: 'pretrained', a .safetensors file with timm's names, or 'none' for random weights.
        image_size: Side of the images; by default the size that the backbone was trained with.
        pooling: How a feature map is pooled.
        window: Side of the parts of a feature map that are embedded too; 0 for whole images only.
        seed: Seed of random weights.
    """
    check_backbone(name, weights)
    name = DEFAULT if name == "auto" else name
    if name in EMBEDDERS:
        made: Embedder = EMBEDDERS[name]()
        return made
    source = BACKBONES[name].timm or name if name in BACKBONES else name
    if trains_on_gpu() and source in timm_models():
        options = {"image_size": image_size, "pooling": pooling, "window": window, "seed": seed}
        on_gpu: Embedder = TORCH["embedder"](source, weights, **options)
        return on_gpu
    network = find_network(name, weights, image_size, seed)
    return BackboneEmbedder(name, network.path, network.preprocessing, pooling=pooling, window=window)


def find_network(name: str, weights: str = "pretrained", image_size: int | None = None, seed: int = 0) -> Network:
    """The ONNX file of a backbone, downloaded or converted if needed; arguments as in :func:`find_embedder`.

    Raises:
        WeightsError: if the weights cannot be loaded; the message says how to get them.
    """
    if name.endswith(".onnx"):
        path = Path(name).expanduser()
        return Network(path, _sized(path, preprocessing_of(path), image_size))
    if name in BACKBONES and BACKBONES[name].repository:
        row = BACKBONES[name]
        if weights != "pretrained":
            raise ConfigError(f"Backbone '{name}' has fixed weights. Remove {option('weights', weights)}.")
        path = _download(name, row)
        return Network(path, _sized(path, row.preprocessing, image_size))
    lite0 = BACKBONES["lite0"]
    source = BACKBONES[name].timm or name if name in BACKBONES else name
    size = image_size or lite0.preprocessing.image_size
    if source.partition(".")[0] == lite0.timm and weights != "none" and size % 32 == 0:
        found = _lite0(weights)
        if found is not None:
            return Network(found, replace(lite0.preprocessing, image_size=size))
    path = _exported(source, weights, image_size, seed)
    return Network(path, preprocessing_of(path))


def preprocessing_of(path: Path) -> Preprocessing:
    """Preprocessing from an ONNX file's metadata or the ``preprocessor_config.json`` next to it; else ImageNet's."""
    from positively.embedding.onnx import open_session

    session = open_session(path)
    told = session.get_modelmeta().custom_metadata_map.get(_PREPROCESSING)
    if told:
        values = json.loads(told)
        return Preprocessing(**{**values, "mean": tuple(values["mean"]), "std": tuple(values["std"])})
    height = session.get_inputs()[0].shape[2] if len(session.get_inputs()[0].shape) == 4 else None
    found = Preprocessing(height if isinstance(height, int) else 224)
    beside = path.parent / "preprocessor_config.json"
    return _preprocessing_of_transformers(beside, found) if beside.is_file() else found


def preprocessing_metadata(preprocessing: Preprocessing) -> dict[str, str]:
    """Metadata with the preprocessing, for ONNX files that this package writes."""
    return {_PREPROCESSING: json.dumps(asdict(preprocessing))}


def _preprocessing_of_transformers(path: Path, default: Preprocessing) -> Preprocessing:
    """The preprocessing in a ``preprocessor_config.json`` of transformers."""
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        size = config.get("crop_size") if config.get("do_center_crop") else config.get("size")
        if isinstance(size, dict):
            size = size.get("height") or size.get("shortest_edge")
        names = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
        return Preprocessing(
            int(size or default.image_size),
            tuple(config.get("image_mean", default.mean)),
            tuple(config.get("image_std", default.std)),
            names.get(config.get("resample", 3), "bicubic"),
            "crop" if config.get("do_center_crop") else "squash",
        )
    except (ValueError, TypeError, AttributeError) as reason:
        raise ConfigError(f"{path} is not a valid file of transformers: {reason}. Repair or remove it.") from reason


def _sized(path: Path, preprocessing: Preprocessing, image_size: int | None) -> Preprocessing:
    """The preprocessing with another image size, if the network supports it."""
    if image_size in (None, preprocessing.image_size):
        return preprocessing
    from positively.embedding.onnx import open_session

    height = open_session(path).get_inputs()[0].shape[2]
    if isinstance(height, int):
        raise ConfigError(f"{path} only takes images of {height} pixels. Remove {option('image_size', image_size)}.")
    return replace(preprocessing, image_size=image_size)


def _lite0(weights: str) -> Path | None:
    """The ONNX file of EfficientNet-Lite0, converted without torch; None if its weights are not installed."""
    from positively.embedding.offline import network_from_file, offline_network

    return offline_network("lite0") if weights == "pretrained" else network_from_file(Path(weights).expanduser())


def _exported(name: str, weights: str, image_size: int | None, seed: int) -> Path:
    """The ONNX file of a timm model, exported with torch once and then cached."""
    content = weights
    if weights not in ("pretrained", "none"):
        content = hashlib.sha256(Path(weights).expanduser().read_bytes()).hexdigest()
    told = repr((name, content, image_size, seed if weights == "none" else 0))
    path = network_folder() / f"{hashlib.blake2b(told.encode(), digest_size=12).hexdigest()}.onnx"
    if not path.exists():
        if not timm_models():
            raise ConfigError(
                f"Backbone '{name}' with these weights needs timm, which is not part of the light installation: "
                "pip install 'positively[torch]', or 'positively[offline]' for lite0."
            )
        write_with(path, lambda temporary: TORCH["export"](name, weights, image_size, seed, temporary))
    return path


def _download(name: str, row: Row) -> Path:
    """The file of a row, from the local hub cache or the hub; its digest is checked if known."""
    import huggingface_hub

    place: dict[str, Any] = {"repo_id": row.repository, "filename": row.file, "revision": row.revision}
    try:
        cached = huggingface_hub.try_to_load_from_cache(**place)
        if not isinstance(cached, str):
            # One request without retries, so that a machine without network fails within seconds.
            huggingface_hub.get_hf_file_metadata(huggingface_hub.hf_hub_url(**place), timeout=_SECONDS_TO_ANSWER)
            cached = huggingface_hub.hf_hub_download(**place)
    except Exception as reason:  # exceptions differ between versions of the hub client
        raise WeightsError(
            f"Backbone '{name}' cannot be downloaded from {row.repository} ({short(reason)}). Run this once on a "
            "machine with network access and copy its Hugging Face cache here (HF_HOME, usually ~/.cache/huggingface), "
            f"pass an .onnx file with {option('backbone', 'FILE')}, or use lite0: pip install 'positively[offline]'."
        ) from reason
    path = Path(cached)
    if row.sha256 is not None and hashlib.sha256(path.read_bytes()).hexdigest() != row.sha256:
        raise WeightsError(f"{path} is not the file of '{name}' (its SHA-256 differs). Delete it and try again.")
    return path
