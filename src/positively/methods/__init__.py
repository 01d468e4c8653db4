"""Methods: whole systems, each a loss or a solver with what belongs to it."""

from positively.methods.base import Method, StepContext, TrainingContext
from positively.methods.loss_method import LossMethod
from positively.methods.registry import METHODS, create_method, register_method, resolve_options

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
