"""Training methods. A method is a loss together with its options and its state."""

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
