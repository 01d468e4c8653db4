"""Train multi-label image classifiers from positive labels alone, and find the labels that are missing.

    import positively as po

    table = po.read("tags.csv", images="photos/")
    run = po.fit(table, method="pu-mlc")
    run.predict(["a.jpg"])

Names are imported when they are first used, so that ``import positively`` and ``positively --help`` cost no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_API = ("Run", "fit", "read")
_ROOMS = ("calibration", "data", "errors", "features", "labels", "losses", "methods", "metrics", "models", "training")
__all__ = ["LabelState", "LabelTable", "Run", "fit", "losses", "metrics", "models", "read"]

if TYPE_CHECKING:
    from positively import losses, metrics, models
    from positively.api import Run, fit, read
    from positively.labels import LabelState, LabelTable


def __getattr__(name: str) -> Any:
    if name in _API:
        return getattr(import_module("positively.api"), name)
    if name in ("LabelState", "LabelTable"):
        return getattr(import_module("positively.labels"), name)
    if name in _ROOMS:
        return import_module(f"positively.{name}")
    raise AttributeError(f"module 'positively' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS, "__version__"})
