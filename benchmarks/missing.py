"""Lists of missing tags compared with hidden labels and with cleanlab's ranking of the same pairs.

Positives are hidden uniformly, or by class (the known share of a class is σ(logit(ratio) + 0.8 z) with z normal). Rows:
ours; cleanlab's per-class label quality with (a) the same out-of-sample probabilities, (b) those of logistic regression
with unknown labels as negatives, cross-fitted over five folds on the same normalised embeddings, with the L2 penalty
that ranked best on other images. Then a table of 543 images, and the detection of injected false tags among the known
ones.

Run as ``python -m benchmarks.missing FOLDER WEIGHTS [--out OUT]`` from the root of the project, with FOLDER and WEIGHTS
of ``benchmarks.logistic``. Every cell is a file in OUT (runs/missing), so that interrupted runs resume. ``--choose``
prints how each L2 penalty ranks on other images: VOC's val part, and unused images of COCO.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from cleanlab.multilabel_classification.rank import get_label_quality_scores_per_class
from scipy.special import expit, logit

from benchmarks.logistic import logistic, read_tables
from positively import probe
from positively.files import write_json
from positively.missing import rank_missing
from positively.models.heads import root_normalize
from positively.report import COLORS, MARKERS, PALE, Table, add_legend, new_figure, save_figure, styled

RATIOS, KINDS, SEEDS, DEPTHS = (0.1, 0.3, 0.5, 0.7), ("uniform", "by class"), 5, (100, 500, 1000)
NOISE, NOISE_RATIOS = (0.01, 0.05), (0.3, 0.7)
L2, FOLDS, SMALL, OTHERS = 1e-4, 5, 543, 5000
CHOICES, CHOICE_RATIOS = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3), (0.1, 0.5)
OURS, SAME, NEGATIVE = "positively", "cleanlab (a)", "cleanlab (b)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("weights")
    parser.add_argument("--out", type=Path, default=Path("runs/missing"))
    parser.add_argument("--figure", type=Path, help="path of a figure of promised and true precision")
    parser.add_argument("--choose", action="store_true")
    options = parser.parse_args()
    tables = read_tables(options.folder, options.weights)
    if options.choose:
        choose(tables)
        return
    found = {}
    for name, (features, truth, *_) in tables.items():
        if name in ("coco-mini", "voc2007"):
            truth = truth == 1
            for kind in KINDS:
                title, place = f"{name}, hidden {kind}", f"{name}-{kind}"
                found[title] = print_missing(title, options.out, place, features, truth, kind, RATIOS)
            if name == "coco-mini":
                few = features[:SMALL], truth[:SMALL]
                print_missing(f"{SMALL} photos of coco-mini", options.out, f"{name}-{SMALL}", *few, "uniform", (0.3,))
            wrong = {
                (noise, ratio, seed): cell(
                    options.out / f"{name}-noise-{noise}-{ratio}-{seed}.json",
                    *(inject, features, truth, ratio, seed, noise),
                )
                for noise in NOISE
                for ratio in NOISE_RATIOS
                for seed in range(SEEDS)
            }
            print(wrong_table(f"{name}, false tags", wrong).markdown(), flush=True)
        else:
            few, title = (
                (features[-OTHERS:], truth[-OTHERS:] == 1),
                f"{OTHERS:,} other photos of COCO, hidden uniformly",
            )
            found[title] = print_missing(title, options.out, "others", *few, "uniform", RATIOS)
    if options.figure:
        draw_stated(found, options.figure)


@styled
def draw_stated(found: dict[str, dict], path: Path) -> None:
    """Plot promised against true precision of every list; points below the line promise too little."""
    figure, axes = new_figure("First 100, 500 and 1,000 suggestions, 10 to 70 % known", "right, %", "promised, %", 5.0)
    axes.plot([60, 100], [60, 100], color=PALE, linewidth=1)
    axes.fill_between([60, 100], [55, 95], [65, 105], color=PALE, alpha=0.12, linewidth=0, label="within 5 points")
    for place, (title, cells) in enumerate(found.items()):
        points = [
            (100 * true, 100 * stated)
            for cell in cells.values()
            for true, stated in zip(cell[OURS]["precision"], cell[OURS]["stated"], strict=True)
        ]
        style = {"s": 14, "alpha": 0.7, "color": COLORS[place], "marker": MARKERS[place], "linewidths": 0}
        axes.scatter(*zip(*points, strict=True), label=title, **style)
    axes.set(xlim=(60, 101), ylim=(60, 101))
    add_legend(figure, axes)
    save_figure(figure, path)


def print_missing(title: str, out: Path, place: str, features, truth, kind: str, ratios: tuple[float, ...]) -> dict:
    cells = {
        (ratio, seed): cell(out / f"{place}-{ratio}-{seed}.json", compare, features, truth, ratio, seed, kind)
        for ratio in ratios
        for seed in range(SEEDS)
    }
    print(missing_table(title, cells, ratios).markdown(), flush=True)
    return cells


def choose(tables: dict) -> None:
    """Print how each L2 penalty of the peer ranks hidden positives of unused images, with one mask."""
    others = {"voc2007 val": tables["voc2007"][2:], "5,000 other photos of COCO": tables["24,000 photos"][:2]}
    for name, (features, truth) in others.items():
        features, truth = features[:OTHERS], truth[:OTHERS] == 1
        for ratio in CHOICE_RATIOS:
            states = hide(truth, ratio, 0, "uniform")
            hidden, judged = truth & (states == 0), (states == 1).sum(axis=0) >= 3
            for l2 in CHOICES:
                found = measures(ranked(states, cross_fitted(features, states, l2), hidden, judged), int(hidden.sum()))
                shares = " ".join(f"{100 * share:.1f}" for share in (*found["precision"], found["recall"]))
                print(
                    f"{name}, {100 * ratio:.0f} % known, L2 {l2:g}: first {DEPTHS}, recall at 80 %: {shares}",
                    flush=True,
                )


def cell(file: Path, measure, *arguments) -> dict:
    if not file.exists():
        write_json(file, measure(*arguments))
    return json.loads(file.read_text(encoding="utf-8"))


def hide(truth: np.ndarray, ratio: float, seed: int, kind: str) -> np.ndarray:
    """Label states with known positives only."""
    generator = np.random.default_rng([seed, int(100 * ratio)])
    shares = ratio if kind == "uniform" else expit(logit(ratio) + 0.8 * generator.standard_normal(truth.shape[1]))
    return (truth & (generator.random(truth.shape) < shares)).astype(np.int8)


def compare(features: np.ndarray, truth: np.ndarray, ratio: float, seed: int, kind: str) -> dict:
    """Measures of each ranking of the unknown pairs."""
    states = hide(truth, ratio, seed, kind)
    found, probabilities = find(features, states)
    negative = cross_fitted(features, states)
    hidden = truth & (states == 0)
    listed = (found.rows, found.columns)
    judged = found.counts.learned
    return {
        OURS: {
            **measures(hidden[listed], hidden.sum()),
            "stated": [float(found.expected_precision[depth - 1]) for depth in DEPTHS],
            "count": float(found.counts.missing[judged].sum() / hidden[:, judged].sum()),
            "bound": float(found.counts.at_most[judged].sum() / hidden[:, judged].sum()),
        },
        SAME: measures(ranked(states, probabilities, hidden, judged), hidden.sum()),
        NEGATIVE: measures(ranked(states, negative, hidden, judged), hidden.sum()),
    }


def find(features: np.ndarray, states: np.ndarray):
    """Our list, and its out-of-sample probabilities."""
    fitted = probe.fit(features, states, groups=probe.find_series(features))
    names = [str(row) for row in range(len(states))], [str(column) for column in range(states.shape[1])]
    scores = fitted.first_scores(np.arange(states.shape[1]))
    return rank_missing(scores, states, fitted.first, *names), fitted.first.probabilities(scores)


def cross_fitted(features: np.ndarray, states: np.ndarray, l2: float = L2) -> np.ndarray:
    """Cross-fitted probabilities with unknown labels as negatives."""
    inputs = root_normalize(torch.from_numpy(features))
    targets = torch.from_numpy(np.where(states == 1, 1, -1))
    fold = torch.from_numpy(np.random.default_rng(0).permutation(len(states)) % FOLDS)
    result = np.empty(states.shape)
    for number in range(FOLDS):
        held = fold == number
        result[held.numpy()] = expit(logistic(inputs[~held], inputs[held], targets[~held], l2))
    return result


def quality(states: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Label quality by cleanlab, shape (N, C); small where a label looks wrong."""
    labels = [np.flatnonzero(row == 1).tolist() for row in states]
    return get_label_quality_scores_per_class(labels, np.clip(probabilities, 0, 1))


def ranked(states: np.ndarray, probabilities: np.ndarray, hidden: np.ndarray, judged: np.ndarray) -> np.ndarray:
    """Whether unknown pairs of the learned classes are hidden positives, sorted by ascending label quality."""
    unknown = (states == 0) & judged
    return hidden[unknown][np.argsort(quality(states, probabilities)[unknown], kind="stable")]


def measures(right: np.ndarray, total: int) -> dict:
    """Precision at several depths, and recall of the hidden positives at 80 % precision."""
    precision = np.cumsum(right) / np.arange(1, len(right) + 1)
    enough = np.flatnonzero(precision >= 0.8)
    recall = right[: enough[-1] + 1].sum() / total if len(enough) else 0.0
    return {"precision": [float(precision[depth - 1]) for depth in DEPTHS], "recall": float(recall)}


def inject(features: np.ndarray, truth: np.ndarray, ratio: float, seed: int, noise: float) -> dict:
    """Detection of injected false tags among the known ones."""
    states = hide(truth, ratio, seed, "uniform")
    generator = np.random.default_rng([seed, 7])
    false = np.zeros_like(truth)
    for column in range(truth.shape[1]):
        count = generator.binomial((states[:, column] == 1).sum(), noise / (1 - noise))
        false[generator.choice(np.flatnonzero(~truth[:, column]), count, replace=False), column] = True
    states[false] = 1
    found, probabilities = find(features, states)
    known = (states == 1) & found.counts.learned
    right = false[found.wrong.rows, found.wrong.columns]
    theirs = false[known][np.argsort(quality(states, probabilities)[known], kind="stable")]
    total, injected = int(false[known].sum()), max(int(false[known].sum()), 1)
    return {
        "injected": total,
        "listed": len(right),
        OURS: [float(right[:injected].mean()), float(right.mean()), float(right.sum() / injected)],
        SAME: [
            float(theirs[:injected].mean()),
            float(theirs[: len(right)].mean()),
            float(theirs[: len(right)].sum() / injected),
        ],
    }


def missing_table(title: str, cells: dict, ratios: tuple[float, ...]) -> Table:
    rows: list[tuple[str, ...]] = []
    for ratio in ratios:
        results = [cells[ratio, seed] for seed in range(SEEDS)]
        rows.append((f"{100 * ratio:.0f} % known",))
        for name in (OURS, SAME, NEGATIVE):
            precision = percent([result[name]["precision"] for result in results])
            stated = percent([result[name]["stated"] for result in results]) if name == OURS else ["–"] * 3
            recall = percent([[result[name]["recall"]] for result in results])
            count = (
                [f"{np.mean([r[name][key] for r in results]):.2f}" for key in ("count", "bound")]
                if name == OURS
                else ["–"] * 2
            )
            rows.append((name, *precision, *stated, *recall, *count))
    head = ["", *(f"first {depth}" for depth in DEPTHS), *(f"stated {depth}" for depth in DEPTHS), "recall at 80 %"]
    return Table(
        title,
        (*head, "count ÷ truth", "at most ÷ truth"),
        tuple(rows),
        (f"Percent, mean ± standard deviation of {SEEDS} masks.",),
    )


def wrong_table(title: str, cells: dict) -> Table:
    rows = []
    for noise in NOISE:
        for ratio in NOISE_RATIOS:
            results = [cells[noise, ratio, seed] for seed in range(SEEDS)]
            numbers = [f"{np.mean([result[key] for result in results]):.0f}" for key in ("injected", "listed")]
            for name in (OURS, SAME):
                rows.append(
                    (
                        f"{100 * noise:.0f} % false, {100 * ratio:.0f} % known: {name}",
                        *numbers,
                        *percent([r[name] for r in results]),
                    )
                )
    notes = (
        "Precision in the first n, where n is the number of injected tags; precision and recall of our list, and of as "
        "many tags of cleanlab's ranking.",
    )
    return Table(
        title,
        ("", "injected", "listed", "precision, as many", "precision, listed", "recall, listed"),
        tuple(rows),
        notes,
    )


def percent(values: list[list[float]]) -> list[str]:
    array = 100 * np.array(values)
    return [f"{mean:.1f} ± {spread:.1f}" for mean, spread in zip(array.mean(0), array.std(0, ddof=1), strict=True)]


if __name__ == "__main__":
    main()
