"""Methods: whole systems, each a loss with what belongs to it."""

from positively.methods.base import Draw, Method
from positively.methods.registry import METHODS, create_method, default_start, fitting_options, method_options

__all__ = [
    "METHODS",
    "Draw",
    "Method",
    "create_method",
    "default_start",
    "fitting_options",
    "method_options",
]
