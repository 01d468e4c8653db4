"""Measures what the demo found against the truth, next to the same classifier with every blank read as "no"."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from positively.demo.library import Library
from positively.embedding import embed
from positively.labels import NEGATIVE, POSITIVE, LabelTable
from positively.metrics import Evaluation, evaluate
from positively.probe import Probe, calibrated_heads, fit_table
from positively.runs import Run
from positively.tables.options import ReadOptions
from positively.tables.overlap import with_hashes
from positively.tables.reading import read_labels

DEPTHS = (100, 250, 500, 1000)

Pair = tuple[str, str]


@dataclass(frozen=True)
class Result:
    """One way to read the table, measured."""

    name: str
    precision: dict[int, float]
    """Share of true tags among the first so many suggestions; a depth beyond the end of the list is left out."""
    evaluation: Evaluation
    """Of the model on new photos whose tags are complete, at the model's own thresholds."""


@dataclass(frozen=True)
class Comparison:
    """Results, and how many tags there are."""

    new_photos: int
    known: int
    missing: int
    results: list[Result]


def compare(library: Library, listed: Path, run: Path, backbone: str = "auto") -> Comparison:
    """Measure a list of missing tags and a run on the demo's library.

    "Blank = no" is the classifier of the run, fitted to the same embeddings with every tag that is not written down as
    a negative; its list holds the blanks in the order of their leave-one-out probabilities. "Every tag known" is the
    same classifier fitted to the truth.

    Args:
        library: The photos and the truth.
        listed: The list that ``positively missing`` wrote.
        run: The run that ``positively train`` wrote.
        backbone: What embedded the photos.
    """
    known = with_hashes(_read(library.photos))
    truth, new = (_read(file, "negative").with_classes(known.classes) for file in (library.truth, library.new))
    embeddings, new_embeddings = (embed(table, backbone) for table in (known, new))
    blank = known.states() != POSITIVE
    hidden = blank & (truth.states() == POSITIVE)

    def evaluated(model: Probe) -> Evaluation:
        thresholds = calibrated_heads(model)["kernel"].thresholds()
        return evaluate(model.probabilities(new_embeddings.X), new.states(), new.classes, thresholds)

    no = fit_table(_blank_as_no(known), embeddings.X)
    rows, columns = np.nonzero(blank)
    order = np.argsort(-no.calibration.probabilities(no.loo_scores)[blank], kind="stable")
    row, column = ({name: index for index, name in enumerate(names)} for names in (known.images, known.classes))
    found = np.array([(row[image], column[tag]) for image, tag in read_pairs(listed)])
    model = Run(run)
    scores = model.scores_of_embeddings(new_embeddings)
    ours = evaluate(scores, new.states(), new.classes, model.thresholds)
    complete = fit_table(replace(truth, hashes=known.hashes), embeddings.X)
    return Comparison(
        new_photos=len(new),
        known=known.total(POSITIVE),
        missing=int(hidden.sum()),
        results=[
            Result("positively", _precision(hidden[found[:, 0], found[:, 1]]), ours),
            Result("blank = no", _precision(hidden[rows, columns][order]), evaluated(no)),
            Result("every tag known", {}, evaluated(complete)),
        ],
    )


def read_pairs(listed: Path) -> list[Pair]:
    """Images and tags of a list that ``positively missing`` wrote, in its order."""
    with listed.open(encoding="utf-8", newline="") as file:
        return [(line["image"], line["tag"]) for line in csv.DictReader(file)]


def _read(file: Path, blank: str = "unknown") -> LabelTable:
    return read_labels(file, ReadOptions(blank=blank))[0]  # type: ignore[arg-type]


def _blank_as_no(table: LabelTable) -> LabelTable:
    """The table with every unknown label as a negative."""
    return replace(table, offsets=table.positives() * (POSITIVE - NEGATIVE), blank=NEGATIVE)


def _precision(right: npt.NDArray[np.bool_]) -> dict[int, float]:
    """Share that is right among the first of a list, at each depth."""
    return {depth: float(right[:depth].mean()) for depth in DEPTHS if depth <= len(right)}
