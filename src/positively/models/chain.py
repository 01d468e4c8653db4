"""A network as a chain of modules, so that its first part can be run once and only its last part trained."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from positively.errors import ConfigError, option
from positively.models.backbones import Backbone
from positively.models.freezing import stage_ends


def split_backbone(backbone: Backbone, learn_stages: int) -> tuple[nn.Sequential, nn.Sequential]:
    """The backbone's own modules, cut before its last ``learn_stages`` stages.

    Args:
        backbone: A network whose feature map is what its modules give one after the other, as most CNNs' is.
        learn_stages: How many of the last stages belong to the second part, at least 1.

    Returns:
        Normalised images → what the first part gives; and from there to the network's own features. Both share their
        modules with the backbone.

    Raises:
        ConfigError: If the network is no chain (a ViT adds positions between its modules), or has too few stages.
    """
    ends = stage_ends(backbone.network)
    if not 1 <= learn_stages < max(len(ends), 1):
        raise ConfigError(
            f"Backbone {backbone.name!r} has {len(ends)} stages: depth 'tail' trains 1 to {max(len(ends) - 1, 1)} of "
            f"them, not {learn_stages}."
            if ends
            else f"Backbone {backbone.name!r} does not say where its stages begin, so that depth 'tail' cannot cut it. "
            f"Take {option('depth', 'probe')} or {option('depth', 'finetune')}."
        )
    names, modules = _chain(backbone)
    last_frozen = ends[-learn_stages - 1]
    cut = 1 + max((i for i, name in enumerate(names) if f"{name}.".startswith(f"{last_frozen}.")), default=-1)
    first, second = nn.Sequential(*modules[:cut]), nn.Sequential(*modules[cut:])
    if not cut or not any(parameter.requires_grad for parameter in second.parameters()):
        raise _no_chain(backbone)
    return first, second


@torch.no_grad()
def _chain(backbone: Backbone) -> tuple[list[str], list[nn.Module]]:
    """Names and modules that lead, one after the other, from images to the features; found by sending one through."""
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
                length = position  # the last one counts: an activation in place may follow
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        pass  # what stands behind the features (a classifier) or beside them need not fit
    finally:
        for module, mode in modes.items():
            module.training = mode
    if not length:
        raise _no_chain(backbone)
    return [name for name, _ in opened[:length]], [module for _, module in opened[:length]]


def _no_chain(backbone: Backbone) -> ConfigError:
    return ConfigError(
        f"Backbone {backbone.name!r} is no chain of stages that ends in one with something to learn, so that depth "
        f"'tail' cannot cut it. Take a CNN (resnet50, tf_efficientnet_lite0 …), or {option('depth', 'probe')} or "
        "'finetune'."
    )
