"""Simulated reviews on hidden labels: 2,000 answers by each query strategy, and coverage of the audit's interval.

Images of coco-mini and VOC 2007 with 30 % of their tags known. Rows are query strategies; ``fixed`` asks in the initial
order, ``random`` asks for any unknown pair. Also given is the mAP of a model that gets the same answers at once. The
interval is tested on 5,000 further images, which were not used to set its constants.

Run as ``python -m benchmarks.loop FOLDER WEIGHTS --out FIGURES`` from the root of the project; the first two arguments
are those of ``benchmarks.logistic``. ``--answers 200 --simulations 20`` is a quick check.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.logistic import read_tables
from positively.metrics import mean_average_precision
from positively.report import COLORS, MARKERS, add_legend, new_figure, save_figure, styled
from positively.research.simulate import POLICIES, Coverage, Progress, audit_coverage, simulate
from positively.review import ReviewModel

KNOWN, REVIEWED, MOST = 0.3, 500, 5000
NAMES = {
    "likeliest": "most probable first",
    "teaching": "most informative first",
    "mixed": "mix of the page",
    "random": "random",
    "fixed": "initial order",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("weights")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--answers", type=int, default=2000)
    parser.add_argument("--simulations", type=int, default=200)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    tables = read_tables(options.folder, options.weights)
    for name, (features, truth, test, test_truth) in tables.items():
        features, truth = features[:MOST], truth[:MOST]
        known = np.random.default_rng(0).random(truth.shape) < KNOWN
        states = np.where(known & (truth == 1), 1, 0).astype(np.int8)
        classes = [str(index) for index in range(truth.shape[1])]

        def start(features=features, states=states, classes=classes) -> ReviewModel:
            return ReviewModel(features, states, classes)

        def quality(model: ReviewModel, test=test, test_truth=test_truth) -> float:
            return 100 * mean_average_precision(model.scores(test), test_truth)

        curves, at_end = {}, {}
        for policy in POLICIES if name in ("coco-mini", "voc2007") else ():
            model = start()
            curves[policy] = simulate(model, truth, policy, options.answers, quality=quality)
            at_end[policy] = quality(answered_at_once(start(), model))
            print(f"  {name}, {policy}: {curves[policy][-1]}", flush=True)
        if curves:
            print(table(name, curves, at_end), flush=True)
            draw(name, curves, options.out)
        for after in (0, REVIEWED):
            rows = audit_coverage(start(), truth, simulations=options.simulations, after=after)
            print(f"{name}, {after} likeliest answered before\n\n{coverage_table(rows)}", flush=True)


def answered_at_once(fresh: ReviewModel, reviewed: ReviewModel) -> ReviewModel:
    """Initial model with all answers of a review."""
    for column in range(len(reviewed.classes)):
        rows = np.flatnonzero(reviewed.columns[column].labels.reviewed)
        fresh.answer(rows, column, reviewed.states(column)[rows])
    fresh.renew()
    return fresh


def table(name: str, curves: dict[str, list[Progress]], at_end: dict[str, float]) -> str:
    """Table of tags found, mAP on other images, and error of the count, after parts of the answers."""
    points = curves[POLICIES[0]]
    places = [len(points) // 4, len(points) // 2, len(points) - 1]
    first = points[0]
    lines = [
        f"\n{name}: {first.missing:,} tags hidden; mAP {first.quality:.1f} before the first answer, "
        f"{first.expected / first.missing - 1:+.0%} in the count of missing tags\n",
        "| strategy |" + "".join(f" found at {points[place].answers:,} |" for place in places)
        + "".join(f" mAP at {points[place].answers:,} |" for place in places) + " learned at once |"
        + " count by model | by audit |",
        "|---|" + "---:|" * (2 * len(places) + 3),
    ]  # fmt: skip
    for policy, curve in curves.items():
        last = curve[-1]
        found = " | ".join(f"{curve[place].found:,}" for place in places)
        quality = " | ".join(f"{curve[place].quality:.1f}" for place in places)
        audit = last.estimate
        checked = "" if audit is None else f"{audit.missing:,.0f} ({audit.low:,.0f}–{audit.high:,.0f})"
        lines.append(
            f"| {NAMES[policy]} | {found} | {quality} | {at_end[policy]:.1f} "
            f"| {last.expected:,.0f} of {last.missing:,} | {checked} |"
        )
    return "\n".join(lines) + "\n"


def coverage_table(rows: list[Coverage]) -> str:
    """Table of the coverage of the audit's 95 % interval."""
    lines = ["| audit answers | held | mean error | typical error | mean width | held, single tags |", "|---:|" * 6]
    lines[1] = "|" + "---:|" * 6
    for row in rows:
        lines.append(
            f"| {row.answers} | {row.held:.1%} | {row.bias:+.1%} | {row.error:.0%} | {row.width:.0%} "
            f"| {row.class_held:.1%} |"
        )
    return "\n".join(lines) + "\n"


def error(point: Progress, count: float) -> float:
    """Error of a count of missing tags, in percent."""
    return 100 * (count / max(point.missing, 1) - 1)


@styled
def draw(name: str, curves: dict[str, list[Progress]], out: Path) -> None:
    """Plot tags found, mAP and error of the count against the number of answers, one figure each."""
    hidden = curves[POLICIES[0]][0].missing
    kinds = {
        "found": (f"tags found of {hidden:,} hidden", lambda point: point.found),
        "quality": ("mAP on other photos, %", lambda point: point.quality),
        "count": ("error of the count of missing tags, %", lambda point: error(point, point.expected)),
    }
    for kind, (ylabel, value) in kinds.items():
        figure, axes = new_figure(f"{name}, 30 % of the tags known", "answers", ylabel)
        for place, (policy, curve) in enumerate(curves.items()):
            style = {"color": COLORS[place], "marker": MARKERS[place], "markevery": 4, "label": NAMES[policy]}
            axes.plot([point.answers for point in curve], [value(point) for point in curve], **style)
            audited = [point for point in curve if point.estimate is not None]
            if kind == "count" and audited:
                low, high = ([error(p, getattr(p.estimate, end)) for p in audited] for end in ("low", "high"))
                label = "95 % interval of its audit"
                answers = [point.answers for point in audited]
                axes.fill_between(answers, low, high, color=COLORS[place], alpha=0.2, label=label, linewidth=0)
        add_legend(figure, axes)
        save_figure(figure, out / f"loop-{name}-{kind}")


if __name__ == "__main__":
    main()
