"""Sections of the benchmark report: one per suite with its claims, and one on the labels of the datasets."""

from __future__ import annotations

from collections.abc import Sequence

from positively.report import Picture, Section, Table, slug
from positively.research.bench.claims import Claim, claims_table, compare
from positively.research.bench.counts import label_counts, table_2
from positively.research.bench.datasets import Dataset
from positively.research.bench.figures import (
    behind_one,
    epoch_curves,
    imbalance,
    map_over_noise,
    map_over_ratio,
    temperature_curves,
)
from positively.research.bench.results import Result, select
from positively.research.bench.rivals import rivals_table
from positively.research.bench.suite import CURVES, Suite
from positively.research.bench.tables import MEASURE_NAMES, curves, sweep, table_1, table_3

NOT_MEASURABLE = "not measurable"


def labels_section(datasets: Sequence[Dataset]) -> Section:
    """Table 2 and the label imbalance of the training tables."""
    tables = [table_2(label_counts(dataset.train), dataset.name, dataset.family) for dataset in datasets]
    pictures = [
        Picture(
            f"imbalance-{slug(dataset.name)}",
            f"{dataset.name}: positive and negative labels of twenty random classes (figure 2b of the paper).",
            imbalance(dataset.train),
        )
        for dataset in datasets
    ]
    text = "Number of labels that training from positives alone saves."
    return Section("Table 2 and figure 2b: the labels", text, tables, pictures)


def suite_section(suite: Suite, results: Sequence[Result], datasets: Sequence[Dataset], depth: str) -> Section:
    """Tables, figures and claims of a suite."""
    if depth not in suite.depths:
        rows = tuple((row.name, NOT_MEASURABLE) for row in suite.rows)
        why = f"This cannot be measured at depth {depth}; use {' or '.join(suite.depths)}."
        return Section(suite.title, suite.text, [Table(f"{suite.title}, depth {depth}", ("", "mAP"), rows, (why,))])
    tables: list[Table] = []
    pictures: list[Picture] = []
    for dataset in datasets:
        here = select(results, dataset=dataset.name, depth=depth)
        if here:
            tables += _tables(suite, here, dataset.name, depth)
            pictures += _pictures(suite, here, dataset.name, depth)
    verdicts = claims_of(suite, results, datasets, depth)
    if verdicts:
        tables.append(claims_table(verdicts, f"{suite.title}: claims"))
    return Section(suite.title, suite.text, tables, pictures)


def claims_of(suite: Suite, results: Sequence[Result], datasets: Sequence[Dataset], depth: str) -> list[Claim]:
    """Verdicts on all claims of a suite, for every dataset they apply to."""
    made = []
    for claim in suite.claims:
        for dataset in datasets:
            if claim.family in (None, dataset.family):
                sides = f"{claim.higher['row']} against {claim.lower['row']}, {dataset.name}, depth {depth}"
                verdict = compare(results, claim.higher, claim.lower, dataset.name, depth)
                made.append(Claim(claim.claim, sides, verdict))
    return made


def _tables(suite: Suite, results: Sequence[Result], dataset: str, depth: str) -> list[Table]:
    title = f"{suite.title}: {dataset}, depth {depth}"
    if suite.show == "table1":
        return [table_1(results, dataset, depth)]
    if suite.show == "table3":
        return [table_3(results, dataset, depth)]
    if suite.show == "rivals":
        return [rivals_table(results, dataset, depth, suite.against, f"{title}, mAP on test in percent")]
    if suite.show == "noise":
        return [
            sweep(results, dataset, depth, over="noise", at=ratio, title=f"{title}, {100 * ratio:g} % known, mAP")
            for ratio in suite.ratios
        ]
    tables = [
        sweep(results, dataset, depth, measure=measure, title=f"{title}, {MEASURE_NAMES[measure]} on test")
        for measure in suite.measures
    ]
    for key, what in _curve_keys(suite):
        for ratio in suite.ratios:
            known = f"{title}, {what}, {100 * ratio:g} % known"
            tables.append(curves(select(results, ratio=ratio), key, title=known, percent=key == "holdout_map"))
    return tables


def _curve_keys(suite: Suite) -> list[tuple[str, str]]:
    if suite.show == "curves":
        return [("holdout_map", "mAP on held-out training images")]
    return [("spread", "spread of the logits"), ("tau", "τ")] if suite.show == "temperature" else []


def _pictures(suite: Suite, results: Sequence[Result], dataset: str, depth: str) -> list[Picture]:
    name = f"{slug(suite.name)}-{slug(dataset)}-{depth}"
    if suite.show == "noise":
        return [
            Picture(f"{name}-{100 * ratio:g}", suite.title, map_over_noise(results, dataset, depth, ratio=ratio))
            for ratio in suite.ratios
        ]
    if suite.show == "rivals":
        caption = f"{suite.title}: {dataset}, means over the seeds relative to {suite.against}."
        return [Picture(name, caption, behind_one(results, dataset, depth, suite.against))]
    if suite.show in CURVES:
        draw = epoch_curves if suite.show == "curves" else temperature_curves
        pictures = []
        for ratio in suite.ratios:
            caption = f"{suite.title}: {dataset}, depth {depth}, {100 * ratio:g} % known."
            pictures.append(Picture(f"{name}-{100 * ratio:g}", caption, draw(select(results, ratio=ratio))))
        return pictures
    if len(suite.ratios) < 2:
        return []
    paper = suite.show == "table1"
    return [Picture(name, f"{suite.title}: {dataset}.", map_over_ratio(results, dataset, depth, paper=paper))]
