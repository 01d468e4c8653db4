"""``positively demo``: finds the missing tags of a small photo library that it draws; or the paper's demo."""

from __future__ import annotations

import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from positively.cli.parsing import Parser
from positively.errors import ConfigError, option
from positively.options import Count, Folder, Name

if TYPE_CHECKING:
    from positively.demo import Comparison

_OUT, _PAPER_OUT = "positively-demo", "positively-demo/paper"


def parser() -> Parser:
    """Options of the verb."""
    made = Parser(
        "demo",
        "",
        "Draw a library of 1,000 photos with incomplete tags, find the missing tags, train a model and compare both "
        "with the truth, in about a minute. With --paper: train a network with the paper's method and three others "
        "(needs torch, takes minutes).",
        examples=["positively demo", "positively demo --paper"],
    )
    made.add("out", Folder | None, None, f"Folder to write, where finished steps are kept; default: {_OUT}/.")
    made.add_switch("paper", "Compare auto, PU-MLC and BCE on 30 % of the tags with BCE on every label.")
    made.add("seeds", Count, 2, "With --paper: number of seeds.")
    made.add("backbone", Name, "auto", "Without --paper: backbone that embeds the photos.")
    return made


def main(arguments: list[str]) -> int:
    """Run the demo and show the results."""
    values = parser().parse(arguments)
    idle = values.backbone != "auto" and "backbone" if values.paper else values.seeds != 2 and "seeds"
    if idle:
        where = "without" if values.paper else "with"
        raise ConfigError(f"{option(idle)} only applies {where} {option('paper', True)}.")
    if values.paper:
        return _paper(Path(values.out or _PAPER_OUT), values.seeds)
    return _library(Path(values.out or _OUT), values.backbone)


def _library(out: Path, backbone: str) -> int:
    from positively.embedding import find_embedder
    from positively.errors import quoted

    began = time.perf_counter()
    find_embedder(backbone)  # without weights, say so before anything is drawn
    from positively.demo import NEW_PHOTOS, PHOTOS, compare, make_library
    from positively.logs import counted_progress
    from positively.workspace import Workspace

    print(f"{PHOTOS:,} photos with incomplete tags, and {NEW_PHOTOS:,} to test with: {out}/", flush=True)
    library = make_library(out, PHOTOS, NEW_PHOTOS)
    place, photos = Workspace.of(library.photos), str(library.photos)
    network = [] if backbone == "auto" else ["--backbone", backbone]
    listed = place.missing / "missing.csv"
    _step(listed.exists(), "check", photos)
    _step(listed.exists(), "missing", photos, *network)
    _step(bool(_finished_runs(place.runs)), "train", photos, *network)
    run = _finished_runs(place.runs)[0]
    _step((run / "evaluation.json").exists(), "evaluate", str(run), str(library.new), "--blank", "negative")
    _step(False, "report", str(run))
    with counted_progress("Comparing with the truth"):
        found = compare(library, listed, run, backbone)
    _show(found)
    print(
        f"\nPhotos: {photos}. Every tag: {library.truth}. Report: {run / 'report.html'}.\n"
        f"{time.perf_counter() - began:.0f} seconds.\n\n"
        "Accept or reject the missing tags in your browser:\n"
        f"  {quoted('positively', 'review', photos, *network)}\n"
        "Your own photos:\n"
        "  positively check tags.csv --images photos/\n"
        "  positively missing tags.csv --images photos/\n"
        "  positively train tags.csv --images photos/\n"
        "The method of the paper, on a network (needs torch):\n"
        "  positively demo --paper"
    )
    return 0


def _finished_runs(folder: Path) -> list[Path]:
    """The runs of ``train`` with its defaults that were finished, the oldest first."""
    return sorted(file.parent for file in folder.glob("auto*/config.json"))


def _step(is_done: bool, verb: str, *words: str) -> None:
    """Run a verb as from the command line, unless an earlier call did."""
    from positively.errors import PositivelyError, quoted

    print(f"\n$ {quoted('positively', verb, *words)}{'   # done by an earlier call' if is_done else ''}", flush=True)
    if not is_done and import_module(f"positively.cli.{verb}").main(list(words)):
        raise PositivelyError(f"positively {verb} failed; see above.")


def _show(found: Comparison) -> None:
    from positively.demo.comparison import DEPTHS

    print(f"\nCompared with the truth: {found.known:,} known and {found.missing:,} missing tags.\n")
    print(f"{'percent':<16}" + "".join(f"{f'first {depth:,}':>13}" for depth in DEPTHS) + f"{'mAP':>8}{'F1':>8}")
    for result in found.results:
        shares = [result.precision.get(depth) for depth in DEPTHS]
        cells = ["–" if share is None else f"{100 * share:.1f}" for share in shares]
        quality = result.evaluation.mean_average_precision, result.evaluation.f1.overall_f1
        print(f"{result.name:<16}" + "".join(f"{cell:>13}" for cell in cells), end="")
        print("".join(f"{100 * share:>8.1f}" for share in quality))
    print(
        "\nfirst N: share of true tags among the first N of the list of missing tags.\n"
        f"mAP, F1: of the trained model on {found.new_photos:,} new photos; F1 at the model's own thresholds.\n"
        "blank = no: the same classifier on the same embeddings, fitted with every unknown tag as a negative.\n"
        "Its list is ordered by leave-one-out probability.\n"
        "every tag known: the same classifier, fitted to the truth."
    )


def _paper(out: Path, seeds: int) -> int:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    from positively.registry import import_room

    import_room("losses")  # without torch, say so before anything is drawn
    paper_demo, began = import_room("research.paper_demo"), time.perf_counter()
    results = paper_demo.run_demo(out, seeds)
    table = Table(title=f"Percent, mean ± half the spread of {seeds} seeds", box=SIMPLE)
    table.add_column("method", no_wrap=True)
    for measure in paper_demo.MEASURES:
        table.add_column(measure, justify="right", no_wrap=True)
    for name, measures in paper_demo.summarize(results).items():
        table.add_row(
            name, *("–" if mean != mean else f"{mean:.1f} ± {spread:.1f}" for mean, spread in measures.values())
        )
    Console(width=max(Console().width, 96)).print(table)
    figure = out / "demo.png"
    paper_demo.draw(results, figure, out / "scenes")
    print(
        "The first three learn from the same 30 % of the positive tags and no negative; the last from every label.\n"
        "mAP, F1: on test scenes; F1 at each model's own thresholds. first 100, first 500: share of true tags among "
        "those it would add to the training scenes.\n"
        "PU-MLC is the method of the paper. auto trains the same network with PU-MLC and then fits a probe on it.\n"
        f"Figure: {figure}. Run folders, each with a report.html: {out}/*-seed*. Scenes and tags: {out}/scenes.\n"
        f"{time.perf_counter() - began:.0f} seconds. Next: positively train your-tags.csv --images your-photos/"
    )
    return 0
