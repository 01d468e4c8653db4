"""Optimizer and learning-rate schedule."""

import math

from timm.optim._param_groups import param_groups_weight_decay
from torch import nn
from torch.optim import Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, OneCycleLR

from positively.config import TrainConfig


def make_optimizer(network: nn.Module, config: TrainConfig) -> Optimizer:
    """Adam or AdamW on all trainable parameters, without weight decay on vectors (biases and norms)."""
    kind = AdamW if config.optimizer == "adamw" else Adam
    return kind(param_groups_weight_decay(network, config.weight_decay), lr=config.lr or 0.0)


def make_schedule(optimizer: Optimizer, config: TrainConfig, steps: int) -> LRScheduler:
    """Learning rate over ``steps`` steps. As in the reference code, one-cycle also cycles the momentum of Adam."""
    if config.schedule == "onecycle" and steps >= 4:
        # Each phase of OneCycleLR needs at least one step.
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
