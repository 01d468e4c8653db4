"""Optimizer and learning-rate schedule from the configuration."""

import math

from timm.optim._param_groups import param_groups_weight_decay
from torch import nn
from torch.optim import Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, OneCycleLR

from positively.config import TrainConfig


def make_optimizer(network: nn.Module, config: TrainConfig) -> Optimizer:
    """Adam or AdamW over what learns; vectors (biases, norms) carry no weight decay."""
    kind = AdamW if config.optimizer == "adamw" else Adam
    return kind(param_groups_weight_decay(network, config.weight_decay), lr=config.lr or 0.0)


def make_schedule(optimizer: Optimizer, config: TrainConfig, steps: int) -> LRScheduler:
    """Learning rate over ``steps`` steps. One-cycle also cycles Adam's momentum, as in the reference."""
    if config.schedule == "onecycle" and steps >= 4:
        # torch divides by the length of each phase: both need a step.
        rise = min(max(config.warmup, 2 / steps), 1 - 1 / steps)
        return OneCycleLR(optimizer, max_lr=config.lr or 0.0, total_steps=steps, pct_start=rise)
    rising = max(1, round(config.warmup * steps))

    def factor(step: int) -> float:
        if config.schedule == "constant":
            return 1.0
        if step < rising:
            return (step + 1) / rising
        return 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1, steps - rising)))

    return LambdaLR(optimizer, factor)
