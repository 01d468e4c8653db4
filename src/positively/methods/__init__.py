"""Methods: whole systems, each a loss with what belongs to it."""

from positively.methods.base import Method, StepContext
from positively.methods.registry import METHODS, create_method, default_start, fitting_options, method_options

__all__ = [
    "METHODS",
    "Method",
    "StepContext",
    "create_method",
    "default_start",
    "fitting_options",
    "method_options",
]
