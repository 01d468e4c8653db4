"""Golden record of probe and missing list from stored embeddings, without reading images."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import numpy.typing as npt
from scipy.special import expit

import positively as po
from benchmarks.golden import names

Record = dict[str, npt.NDArray]


def record_probe(rows: npt.NDArray[np.float32], table: po.LabelTable, unseen: npt.NDArray[np.float32]) -> Record:
    """Fit and update a probe.

    Args:
        rows: Stored embeddings of the table, shape (N, D).
        table: Its labels, with content hashes.
        unseen: Stored embeddings of other images, shape (B, D).

    Returns:
        The record.
    """
    groups, states = names.series(rows, table), table.states()
    probe = po.probe.fit(rows, states, groups=groups, linear=True)
    found: Record = {
        "groups": groups,
        "penalty": np.log(names.penalties(probe)),
        "step": np.array(names.last_step(probe), dtype=np.float64),
        "loo_scores": probe.loo_scores,
        "first_scores": names.first_scores(probe),
        "scores": probe.scores(unseen),
        "probabilities": probe.probabilities(unseen),
        "thresholds": names.thresholds(probe),
        **names.weights(probe),
        **_calibration(probe.calibration),
    }
    standard = (probe.loo_scores - probe.loo_scores.mean(axis=0)) / probe.loo_scores.std(axis=0)
    found |= record_missing(
        po.find_missing(expit(2 * standard - 2), states, images=table.images, classes=table.classes)
    )
    changed = np.flatnonzero((states == 0).any(axis=1))[:5]
    probe.update(changed, np.where(states[changed] == 0, np.int8(-1), states[changed]))
    found["updated loo_scores"], found["updated scores"] = probe.loo_scores, probe.scores(unseen)
    return {name: np.asarray(value) for name, value in found.items()}


def require_clear_cut(rows: npt.NDArray[np.float32], table: po.LabelTable, noise: float) -> None:
    """Raise ValueError if small changes of the embeddings change λ or the last step.

    Args:
        rows: Embeddings, shape (N, D).
        table: Its labels, with content hashes.
        noise: Largest relative change.
    """
    groups, generator, chosen = names.series(rows, table), np.random.default_rng(0), []
    for scale in (0.0, noise, noise, noise):
        changed = (rows * (1 + scale * generator.uniform(-1, 1, rows.shape))).astype(np.float32)
        probe = po.probe.fit(changed, table.states(), groups=groups, linear=True)
        chosen.append([*names.penalties(probe), *names.last_step(probe)])
    if not np.allclose(chosen, chosen[0], rtol=1e-9):
        raise ValueError(
            f"{table.source}: rounding decides λ or the last step, {chosen}, so the record is not reproducible on "
            "other machines. Choose another seed in LABEL_SEEDS."
        )


def _calibration(calibration: object) -> Record:
    return {
        f"calibration {field.name}": np.asarray(getattr(calibration, field.name))
        for field in fields(calibration)  # type: ignore[arg-type]
    }


def record_missing(found: po.missing.MissingTags) -> Record:  # type: ignore[name-defined]
    """The lists of missing and of suspicious tags, and the counts."""
    return {
        "missing.pairs": np.stack([found.rows, found.columns], axis=1).astype(np.int16),
        "missing.values": np.asarray(found.values, dtype=np.float32),
        "wrong.pairs": np.stack([found.wrong.rows, found.wrong.columns], axis=1).astype(np.int16),
        "wrong.values": np.asarray(found.wrong.values, dtype=np.float32),
        "counts": np.stack([found.counts.known, found.counts.missing, found.counts.at_most, found.counts.learned]),
    }
