"""Every method by its name. A new method is one file and one line here; the contract tests pick it up."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from positively.errors import ConfigError
from positively.losses import LOSSES
from positively.losses.base import check_option, options_of
from positively.methods.base import Method, RiskMethod
from positively.methods.pu_mlc import VariationalMethod
from positively.models import Depth, Start

METHODS: dict[str, Callable[..., Method]] = {
    "pu-mlc": partial(VariationalMethod, "pu-mlc"),
    "vpu": partial(VariationalMethod, "vpu"),
    "upu": partial(RiskMethod, "upu"),
    "nnpu": partial(RiskMethod, "nnpu"),
    "bce": partial(Method, "bce"),
    "assume-negative": partial(Method, "assume-negative"),
}

# What suits a head on kept features, found on training images of COCO held out (docs/measurements.md): equation 10
# divides the level of the logits as well as their spread, which undoes a start at the class frequencies.
_PROBE_OPTIONS: dict[str, dict[str, Any]] = {"pu-mlc": {"gamma": 0.2, "tau": 1.0}}


def fitting_options(name: str, depth: Depth, given: dict[str, Any]) -> dict[str, Any]:
    """Options of a method at this depth: what suits it, under what the user gives; nothing else means as published.

    Whoever gives an option of the adaptive temperature wants it.
    """
    fitting = dict(_PROBE_OPTIONS.get(name, {})) if depth == "probe" else {}
    if given.keys() & {"alpha", "temper", "tau_min", "std"}:
        fitting.pop("tau", None)
    return fitting | given


def default_start(depth: Depth) -> Start:
    """How a head starts at this depth: where only it learns, at the class frequencies."""
    return "prior" if depth == "probe" else "default"


def method_options(name: str) -> list[str]:
    """Names of the options a method takes: its own and its loss's."""
    if name not in METHODS:
        raise ConfigError(f"There is no method '{name}'; there are {', '.join(METHODS)}.")
    own = inspect.signature(METHODS[name]).parameters.values()
    named = [p.name for p in own if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    return named + list(options_of(LOSSES[name].function))


def create_method(name: str, **options: Any) -> Method:
    """Make a method by its name; an option it does not have is an error that lists those it has."""
    allowed = method_options(name)
    for option in options:
        if option not in allowed:
            raise ConfigError(f"Method '{name}' has no option '{option}'; it has {', '.join(allowed)}.")
    own = inspect.signature(METHODS[name]).parameters
    for option in options.keys() & own.keys():
        check_option(f"Method '{name}'", option, options[option], own[option].annotation)
    return METHODS[name](**options)
