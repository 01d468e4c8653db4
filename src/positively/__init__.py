"""Train multi-label image classifiers from positive labels alone, and find missing tags.

    import positively as po

    table = po.read("tags.csv", images="photos/")
    po.find_missing(table)
    run = po.fit(table)
    run.predict(["a.jpg"])

Names are imported on first use, so ``import positively`` and ``positively --help`` do not import torch. Only
``PUClassifier`` imports scikit-learn.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    **dict.fromkeys(("Embeddings", "Run", "embed", "find_missing", "fit", "read", "write_report"), "api"),
    **dict.fromkeys(("LabelState", "LabelTable"), "labels"),
    "PUClassifier": "probe.estimator",
    "ReadOptions": "tables.options",
    "TrainConfig": "config",
    "register_embedder": "embedding",
    "register_head": "models",
    "register_loss": "losses",
    "register_method": "finetune.methods",
    "register_table": "tables.formats",
}
_ROOMS = (
    "calibration",
    "embedding",
    "errors",
    "finetune",
    "labels",
    "losses",
    "metrics",
    "models",
    "probe",
    "tables",
)
__all__ = [
    "Embeddings",
    "LabelState",
    "LabelTable",
    "PUClassifier",
    "ReadOptions",
    "Run",
    "TrainConfig",
    "embed",
    "find_missing",
    "fit",
    "metrics",
    "probe",
    "read",
    "register_embedder",
    "register_table",
    "write_report",
]
if find_spec("torch") is not None:  # else ``from positively import *`` would fail
    __all__ += ["losses", "models", "register_head", "register_loss", "register_method"]

if TYPE_CHECKING:
    from positively import losses, metrics, models, probe
    from positively.api import Embeddings, Run, embed, find_missing, fit, read, write_report
    from positively.config import TrainConfig
    from positively.embedding import register_embedder
    from positively.finetune.methods import register_method
    from positively.labels import LabelState, LabelTable
    from positively.losses import register_loss
    from positively.models import register_head
    from positively.probe.estimator import PUClassifier
    from positively.tables.formats import register_table
    from positively.tables.options import ReadOptions


def __getattr__(name: str) -> Any:
    if name in _HOMES or name in _ROOMS:
        from positively.registry import import_room

        return getattr(import_room(_HOMES[name]), name) if name in _HOMES else import_room(name)
    raise AttributeError(f"module 'positively' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS, "__version__"})
