"""Non-public names used by the golden record. Update this file when something moves."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

import positively as po


def find(*places: str) -> Any:
    """First of several ``module:name`` that exists.

    Example:
        >>> find("positively.none_such:Thing", "positively.labels:LabelTable").__name__
        'LabelTable'
    """
    for place in places:
        module, _, name = place.partition(":")
        try:
            return getattr(import_module(module), name)
        except (ModuleNotFoundError, AttributeError):
            continue
    raise LookupError(f"Not found: {', '.join(places)}. Add the new place in {__name__}.")


def embeddings(table: po.LabelTable) -> npt.NDArray[np.float32]:
    """Embeddings of the images of a table with default options, shape (N, D)."""
    if hasattr(po, "embed"):
        return np.asarray(po.embed(table).X)
    features = find("positively.training.frozen:frozen_features")
    config = find("positively.config:TrainConfig", "positively.training.config:TrainConfig")
    return np.asarray(features(table, config())[1][:])


def series(rows: npt.NDArray[np.float32], table: po.LabelTable) -> npt.NDArray[np.int64]:
    """Group of each image, shape (N,): copies and near-duplicates."""
    groups = find("positively.probe:find_series", "positively.probe.series:find_series")(rows, table.contents())
    return np.arange(len(rows)) if groups is None else groups


def penalties(probe: Any) -> list[float]:
    """λ of the kernel classifier and of the linear classifier."""
    return [probe.kernel.penalty, probe.linear.penalty]


def last_step(probe: Any) -> list[float]:
    """Strength, factor and kind of the last fit."""
    step = probe.step
    return [step.strength, step.factor, step.imputes if hasattr(step, "imputes") else step.fills]


def weights(probe: Any) -> dict[str, npt.NDArray[np.float64]]:
    """Weights and intercepts of both classifiers."""
    found = {}
    for name, solution in {"kernel": probe.kernel, "linear": probe.linear}.items():
        weight, bias = solution.weights(probe.step.factor)
        found[f"{name} weights"] = np.concatenate([np.asarray(weight), np.asarray(bias)[None]])
    return found


def thresholds(probe: Any) -> npt.NDArray[np.float64]:
    """Thresholds, shape (C,)."""
    found = find("positively.calibration:CalibratedScores")(probe.kernel.calibration, probe.kernel.summary)
    return np.asarray(found.thresholds() if hasattr(found, "thresholds") else found.cuts())


def first_scores(probe: Any) -> npt.NDArray[np.float32]:
    """Leave-one-out scores for the missing list, shape (N, C)."""
    return np.asarray(probe.first_scores(np.arange(probe.loo_scores.shape[1])))


def review_parts() -> tuple[Any, Any, Any, Any, Any]:
    """Session, store of decisions, guard, service and reading options of a review."""
    rooms = ("positively.review", "positively.app")
    session, store, guard, server = (
        find(*(f"{room}.{name}" for room in rooms))
        for name in ("session:ReviewSession", "store:DecisionStore", "guard:Guard", "server:create_app")
    )
    return (
        session,
        store,
        guard,
        server,
        find("positively.tables.options:ReadOptions", "positively.data.options:ReadOptions"),
    )


def renew(session: Any) -> None:
    """Update λ and probabilities now."""
    session.model.renew()


def stop_renewals(session: Any) -> None:
    """Stop background updates, whose timing depends on the speed of the machine."""
    session.renewal.stop()


def probabilities(session: Any) -> npt.NDArray[np.float64]:
    """Probabilities (N, C): 1 accepted, 0 rejected, else that the tag is missing."""
    return np.stack([session.model.probabilities(column) for column in range(len(session.model.classes))], axis=1)
