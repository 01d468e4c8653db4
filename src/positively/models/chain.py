"""Splits a network into a frozen part, which is run once, and a trainable last part."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from positively.errors import ConfigError, option
from positively.models.backbones import Backbone
from positively.models.freezing import stage_ends


def split_backbone(backbone: Backbone, learn_stages: int) -> tuple[nn.Sequential, nn.Sequential]:
    """Split a backbone before its last ``learn_stages`` stages.

    Args:
        backbone: A network that applies its modules one after the other, as most CNNs do.
        learn_stages: Number of last stages in the second part, at least 1.

    Returns:
        A module from normalised images to an intermediate map, and a module from there to the features of the network.
        Both share their layers with the backbone.

    Raises:
        ConfigError: If the network is not sequential (a ViT adds positions between its modules) or has too few stages.
    """
    ends = stage_ends(backbone.network)
    if not 1 <= learn_stages < max(len(ends), 1):
        raise ConfigError(
            f"Backbone {backbone.name!r} has {len(ends)} stages, so depth 'tail' can train 1 to "
            f"{max(len(ends) - 1, 1)} of them, not {learn_stages}."
            if ends
            else f"Backbone {backbone.name!r} does not declare its stages, which depth 'tail' needs. "
            f"Use {option('depth', 'probe')} or {option('depth', 'finetune')}."
        )
    names, modules = _chain(backbone)
    last_frozen = ends[-learn_stages - 1]
    split = 1 + max((i for i, name in enumerate(names) if f"{name}.".startswith(f"{last_frozen}.")), default=-1)
    first, second = nn.Sequential(*modules[:split]), nn.Sequential(*modules[split:])
    if not split or not any(parameter.requires_grad for parameter in second.parameters()):
        raise _not_sequential(backbone)
    return first, second


@torch.no_grad()
def _chain(backbone: Backbone) -> tuple[list[str], list[nn.Module]]:
    """Names and modules that lead from images to features in sequence, verified by a forward pass."""
    opened: list[tuple[str, nn.Module]] = []
    for name, child in backbone.network.named_children():
        inner = [(f"{name}.{n}", module) for n, module in child.named_children()]
        opened += inner if isinstance(child, nn.Sequential) and inner else [(name, child)]
    example = next(backbone.parameters())
    size = (1, 3, backbone.image_size, backbone.image_size)
    image = torch.rand(size, generator=torch.Generator().manual_seed(0)).to(example)
    modes = {module: module.training for module in backbone.modules()}
    backbone.eval()
    try:
        wanted = backbone.own_features(image)
        length, value = 0, image
        for position, (_, module) in enumerate(opened, start=1):
            value = module(value)
            if not isinstance(value, Tensor):
                break
            if value.shape == wanted.shape and torch.allclose(value, wanted, rtol=1e-3, atol=1e-4):
                length = position  # keep the last match: an in-place activation may follow
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        pass  # modules after the features (a classifier) or in parallel need not fit
    finally:
        for module, mode in modes.items():
            module.training = mode
    if not length:
        raise _not_sequential(backbone)
    return [name for name, _ in opened[:length]], [module for _, module in opened[:length]]


def _not_sequential(backbone: Backbone) -> ConfigError:
    return ConfigError(
        f"Backbone {backbone.name!r} is not a sequence of stages, which depth 'tail' needs. Use a CNN "
        f"(resnet50, tf_efficientnet_lite0 …), or {option('depth', 'probe')} or {option('depth', 'finetune')}."
    )
