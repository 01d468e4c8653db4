"""Which parts of a network learn: the last stages, and what happens to BatchNorm statistics."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from positively.errors import ConfigError
from positively.models.backbones import Backbone
from positively.models.lgconv import GlobalBranch


def freeze_stages(backbone: Backbone, learn_stages: int | None) -> None:
    """Freeze everything before the last ``learn_stages`` stages, in place; what is frozen already stays so.

    A stage reaches from the end of the one before it to the module that timm's ``feature_info`` names. What follows the
    last one (a final norm, ``conv_head``) belongs to it. Global branches of LgConv learn wherever they sit, as in the
    reference, unless the whole backbone is frozen.

    Args:
        backbone: The backbone whose parameters are set.
        learn_stages: How many of the last stages learn; ``None`` is all of them, 0 none.

    Raises:
        ConfigError: If the backbone has fewer stages, or does not say where they are.
    """
    if learn_stages is None:
        return
    if learn_stages == 0:
        backbone.requires_grad_(False)
        return
    stages = stages_of(backbone.network)
    if not stages:
        raise ConfigError(
            f"Backbone {backbone.name!r} does not say where its stages begin, so no part of it can be frozen. Leave "
            "learn_stages out (everything learns), or set it to 0 (only the head learns)."
        )
    count = len(stages)
    if not 0 < learn_stages <= count:
        raise ConfigError(
            f"Backbone {backbone.name!r} has {count} stages: learn_stages is 0 to {count}, not {learn_stages}."
        )
    branches = (module for module in backbone.modules() if isinstance(module, GlobalBranch))
    learning = {parameter for branch in branches for parameter in branch.parameters()}
    for stage in stages[:-learn_stages]:
        for parameter in stage:
            if parameter not in learning:
                parameter.requires_grad_(False)


def stage_ends(network: nn.Module) -> list[str]:
    """Names of the modules that end the stages; empty if the network does not name modules of its own."""
    info = getattr(network, "feature_info", None) or []
    ends = [entry["module"] for entry in getattr(info, "info", info)]
    names = {name for name, _ in network.named_modules()}
    return ends if all(end and end in names for end in ends) else []


def stages_of(network: nn.Module) -> list[list[nn.Parameter]]:
    """Parameters of each stage, first to last; empty if the network does not name modules of its own as stages."""
    ends = stage_ends(network)
    names = [name for name, _ in network.named_modules()]
    if not ends:
        return []
    # Modules are named depth first, in the order of registration: a stage ends with the last module under its name.
    last = [max(i for i, name in enumerate(names) if f"{name}.".startswith(f"{end}.")) for end in ends]
    stages: list[list[nn.Parameter]] = [[] for _ in ends]
    for position, module in enumerate(network.modules()):
        stage = next((number for number, end in enumerate(last) if position <= end), len(ends) - 1)
        stages[stage].extend(module.parameters(recurse=False))
    # Some ends are an activation or a pooling with nothing to learn since the end before (VGG).
    return [stage for stage in stages if stage]


def names_of_last_stages(backbone: Backbone, count: int) -> list[str]:
    """Names of the modules that belong to the last ``count`` stages and have parameters of their own."""
    last = {parameter for stage in stages_of(backbone.network)[-count:] for parameter in stage}
    return [
        name
        for name, module in backbone.network.named_modules()
        if any(parameter in last for parameter in module.parameters(recurse=False))
    ]


def eval_batchnorm(model: nn.Module) -> None:
    """Put every BatchNorm in eval mode: its statistics stay as they are, its weight and bias still learn."""
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.eval()


def eval_frozen_modules(model: nn.Module) -> None:
    """Put every module that has parameters, none of which learn, in eval mode: no new statistics, no dropout."""
    for module in model.modules():
        parameters = list(module.parameters())
        if parameters and not any(parameter.requires_grad for parameter in parameters):
            module.eval()
