"""Methods: whole systems, each a loss with what belongs to it."""

from positively.finetune.methods.base import Method, StepContext, TrainingContext
from positively.finetune.methods.loss_method import LossMethod
from positively.finetune.methods.registry import create_method, register_method, resolve_options
from positively.registry import METHODS

__all__ = [
    "METHODS",
    "LossMethod",
    "Method",
    "StepContext",
    "TrainingContext",
    "create_method",
    "register_method",
    "resolve_options",
]
