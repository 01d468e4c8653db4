"""The demo of the paper: a network learns scenes of digits from 30 % of their tags, with auto, PU-MLC and BCE.

Four trainings with the same network and budget: auto, PU-MLC and unknown-as-negative use the same 30 % of the positive
tags and no negatives; the last one uses all labels. The difficulty of the scenes was set with the two BCE rows only.
The options of PU-MLC were chosen without negatives, by the vPU criterion on held-out training scenes
(``python -m benchmarks.choices``). auto trains with PU-MLC and then fits a probe on the network, because there are no
pretrained weights.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from positively.api import Run, fit, read
from positively.files import write_json, write_text
from positively.labels import LabelTable
from positively.logs import logger, shown
from positively.report import report_training
from positively.research.scenes import CLASSES, write_scenes

KNOWN_RATIO = 0.3
TRAIN_SCENES, TEST_SCENES = 2000, 1000
NETWORK: dict[str, Any] = {
    "backbone": "positively_tiny",
    "weights": "none",
    "image_size": 48,
    "depth": "finetune",
    "augment": "none",
    "head_options": {"pooling": "max"},
    "epochs": 10,
    "batch_size": 64,
    "lr": 3e-3,
    "ema": 0.99,
    "holdout": 0.15,
}


@dataclass(frozen=True)
class Contestant:
    """One of the trainings."""

    name: str
    method: str
    sees: str
    complete: bool
    options: dict[str, Any] = field(default_factory=dict)


_TUNED = {"gamma": 0.2, "tau": 1.0}
CONTESTANTS = (
    Contestant("auto", "auto", "30 % of the positives", complete=False, options=_TUNED),
    Contestant("PU-MLC", "pu-mlc", "30 % of the positives", complete=False, options=_TUNED),
    Contestant("BCE, unknown as negative", "assume-negative", "30 % of the positives", complete=False),
    Contestant("BCE, complete labels", "bce", "every positive and negative", complete=True),
)


def make_tables(folder: Path) -> tuple[LabelTable, LabelTable]:
    """Write the scenes, unless an earlier call did, and return the complete tables of train and test."""
    logger.info(f"Writing {TRAIN_SCENES:,} + {TEST_SCENES:,} scenes of handwritten digits to {folder}.")
    tables = []
    for part, count in (("train", TRAIN_SCENES), ("test", TEST_SCENES)):
        file = folder / f"{part}.csv"
        if not file.exists():  # written last: an interrupted call starts again
            write_scenes(folder, part, count)  # type: ignore[arg-type]
        tables.append(read(file, classes=str(classes_file(folder)), blank="negative", quiet=True))
    return tables[0], tables[1]


def write_tags(folder: Path, table: LabelTable, seed: int = 0) -> LabelTable:
    """Write 30 % of the positive tags as a CSV file, the table a user would have, and read it."""
    hidden = table.with_known_ratio(KNOWN_RATIO, seed).positives_only()
    lines = []
    for image, states in zip(hidden.images, hidden.states(), strict=True):
        lines.append(f"{image},{';'.join(hidden.classes[c] for c in np.flatnonzero(states == 1))}\n")
    file = folder / f"train-30-percent-seed{seed}.csv"
    write_text(file, "image,tags\n" + "".join(lines))
    return read(file, classes=str(classes_file(folder)), quiet=True)


def classes_file(folder: Path) -> Path:
    """Write the names of all classes to a file: a small table may lack one of them."""
    file = folder / "classes.txt"
    write_text(file, "\n".join(CLASSES) + "\n")
    return file


def run_demo(out: Path, seeds: int = 2) -> list[dict[str, Any]]:
    """Train and score all contestants with all seeds. Finished trainings are not repeated."""
    scenes = out / "scenes"
    complete, test = make_tables(scenes)
    results = []
    for seed in range(seeds):
        tags = write_tags(scenes, complete, seed)
        for contestant in CONTESTANTS:
            folder = out / f"{contestant.method}-seed{seed}"
            evaluation = folder / "evaluation.json"
            if not evaluation.exists():
                logger.info(f"\n{contestant.name} (sees {contestant.sees}), seed {seed}")
                table = complete if contestant.complete else tags
                settings = {"method": contestant.method, "method_options": contestant.options, "seed": seed, **NETWORK}
                run = fit(table, out=str(folder), resume="auto", **settings)
                found = {} if contestant.complete else find_hidden(run, tags, complete)
                write_json(evaluation, {**run.evaluate(test).to_dict(), **found})
                run.folder.record(evaluation)
                with shown(quiet=True):  # rewrite the report with the evaluation
                    report_training(run.path, table)
            results.append({"name": contestant.name, "sees": contestant.sees, "seed": seed, "run": str(folder)})
            results[-1] |= json.loads(evaluation.read_text(encoding="utf-8"))
    return results


def find_hidden(run: Run, tags: LabelTable, complete: LabelTable) -> dict[str, float]:
    """Precision of the first 100 and 500 tags that a run adds to its training table, by score."""
    found = run.folder.read_out_of_sample()
    if found is None:
        scores: npt.NDArray[np.floating] = run.scores(tags)
    else:  # out-of-sample scores, so that an unknown label does not lower its own score
        rows = {image: row for row, image in enumerate(found[0])}
        scores = found[2].scores[[rows[image] for image in tags.images]]
    unknown = tags.states() == 0
    order = np.argsort(-scores[unknown], kind="stable")
    hidden = (complete.states() == 1)[unknown][order]
    return {f"precision_{depth}": float(hidden[:depth].mean()) for depth in (100, 500)}


MEASURES: dict[str, Callable[[dict[str, Any]], float]] = {
    "mAP": lambda result: result["mean_average_precision"],
    "OF1": lambda result: result["f1"]["overall_f1"],
    "CF1": lambda result: result["f1"]["class_f1"],
    "first 100": lambda result: result.get("precision_100", math.nan),
    "first 500": lambda result: result.get("precision_500", math.nan),
}


def summarize(results: list[dict[str, Any]]) -> dict[str, dict[str, tuple[float, float]]]:
    """Mean and half the range over the seeds in percent, by contestant and measure."""
    summary: dict[str, dict[str, tuple[float, float]]] = {}
    for contestant in CONTESTANTS:
        ours = [result for result in results if result["name"] == contestant.name]
        summary[contestant.name] = {}
        for measure, value in MEASURES.items():
            values = np.array([100 * value(result) for result in ours])
            summary[contestant.name][measure] = (float(values.mean()), float(np.ptp(values) / 2))
    return summary


def draw(results: list[dict[str, Any]], file: Path, scenes: Path, shown: int = 6) -> None:
    """Draw the figure: mAP and F1 of each contestant, and test scenes with predicted tags."""
    from matplotlib.figure import Figure
    from PIL import Image

    summary = summarize(results)
    figure = Figure(figsize=(11, 6.2), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=[1.25, 1])
    top, bottom = parts
    axes = top.subplots()
    width, colours = 0.2, ("#0b7a75", "#7fb7b2", "#d17b0f", "#8d99ae")
    for index, (name, measures) in enumerate(summary.items()):
        means, spreads = zip(*measures.values(), strict=True)
        places = np.arange(len(measures)) + (index - 1.5) * width
        bars = axes.bar(places, means, width * 0.94, yerr=spreads, capsize=3, label=name, color=colours[index])
        axes.bar_label(bars, fmt="%.0f", padding=2, fontsize=9)
    axes.set_xticks(np.arange(len(MEASURES)), MEASURES)
    axes.set_ylim(0, 105)
    axes.set_ylabel("percent")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)

    truth = read(scenes / "test.csv", classes=str(classes_file(scenes)), blank="negative", quiet=True)
    run = Run(next(result["run"] for result in results if result["name"] == CONTESTANTS[0].name))
    paths = [str(path) for path in truth.paths[:shown]]
    bottom.suptitle("Tags auto predicts for test scenes: ✓ there, ✗ not there, – missed", fontsize=11)
    panels = bottom.subplots(1, shown)
    for panel, path, prediction, states in zip(panels, paths, run.predict(paths), truth.states(), strict=False):
        panel.imshow(Image.open(path), cmap="gray", vmin=0, vmax=255)
        panel.set_axis_off()
        there = {truth.classes[c] for c in np.flatnonzero(states == 1)}
        found = [f"✓ {tag}" if tag in there else f"✗ {tag}" for tag in prediction.tags]
        missed = [f"– {tag}" for tag in CLASSES if tag in there and tag not in prediction.tags]
        panel.text(0, 50, "\n".join(found + missed), fontsize=9, va="top")
    figure.savefig(file, dpi=110)
