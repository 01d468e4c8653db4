"""Freezing of stages and of BatchNorm statistics."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from positively.errors import ConfigError
from positively.models.backbones import Backbone
from positively.models.lgconv import GlobalBranch


def freeze_stages(backbone: Backbone, learn_stages: int | None) -> None:
    """Freeze everything before the last ``learn_stages`` stages, in place.

    A stage ends with the module named in timm's ``feature_info``. Modules after the last one (a final norm,
    ``conv_head``) belong to the last stage. LgConv branches stay trainable in all stages, as in the reference code,
    unless the whole backbone is frozen.

    Args:
        backbone: The backbone.
        learn_stages: Number of last stages to train; ``None`` trains all, 0 none.

    Raises:
        ConfigError: If the backbone has fewer stages, or does not declare them.
    """
    if learn_stages is None:
        return
    if learn_stages == 0:
        backbone.requires_grad_(False)
        return
    stages = stages_of(backbone.network)
    if not stages:
        raise ConfigError(
            f"Backbone {backbone.name!r} does not declare its stages, so they cannot be frozen. Omit learn_stages to "
            "train everything, or set it to 0 to train the head only."
        )
    count = len(stages)
    if not 0 < learn_stages <= count:
        raise ConfigError(
            f"Backbone {backbone.name!r} has {count} stages; learn_stages must be 0 to {count}, not {learn_stages}."
        )
    branches = (module for module in backbone.modules() if isinstance(module, GlobalBranch))
    learning = {parameter for branch in branches for parameter in branch.parameters()}
    for stage in stages[:-learn_stages]:
        for parameter in stage:
            if parameter not in learning:
                parameter.requires_grad_(False)


def stage_ends(network: nn.Module) -> list[str]:
    """Names of the modules that end the stages; empty if the network does not declare stages."""
    info = getattr(network, "feature_info", None) or []
    ends = [entry["module"] for entry in getattr(info, "info", info)]
    names = {name for name, _ in network.named_modules()}
    return ends if all(end and end in names for end in ends) else []


def stages_of(network: nn.Module) -> list[list[nn.Parameter]]:
    """Parameters of each stage, first to last; empty if the network does not declare stages."""
    ends = stage_ends(network)
    names = [name for name, _ in network.named_modules()]
    if not ends:
        return []
    # Modules are listed depth first: a stage ends with the last module under its name.
    last = [max(i for i, name in enumerate(names) if f"{name}.".startswith(f"{end}.")) for end in ends]
    stages: list[list[nn.Parameter]] = [[] for _ in ends]
    for position, module in enumerate(network.modules()):
        stage = next((number for number, end in enumerate(last) if position <= end), len(ends) - 1)
        stages[stage].extend(module.parameters(recurse=False))
    # Some stages end with an activation or a pooling and have no parameters (VGG).
    return [stage for stage in stages if stage]


def names_of_last_stages(backbone: Backbone, count: int) -> list[str]:
    """Names of the modules in the last ``count`` stages that have parameters of their own."""
    last = {parameter for stage in stages_of(backbone.network)[-count:] for parameter in stage}
    return [
        name
        for name, module in backbone.network.named_modules()
        if any(parameter in last for parameter in module.parameters(recurse=False))
    ]


def eval_batchnorm(model: nn.Module) -> None:
    """Put every BatchNorm in eval mode: fixed statistics, trainable weight and bias."""
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.eval()


def eval_frozen_modules(model: nn.Module) -> None:
    """Put every fully frozen module in eval mode: fixed statistics, no dropout."""
    for module in model.modules():
        parameters = list(module.parameters())
        if parameters and not any(parameter.requires_grad for parameter in parameters):
            module.eval()
