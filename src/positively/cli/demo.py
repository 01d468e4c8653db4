"""``positively demo``: scenes of handwritten digits with hidden tags, found again in a minute; or the paper's demo."""

import time
from pathlib import Path

from positively.cli.parsing import Parser
from positively.options import Count, Folder, Name


def parser() -> Parser:
    """Options of the verb."""
    made = Parser(
        "demo",
        "",
        "Hide 70 % of the tags of 2,000 scenes of handwritten digits, find them again and train a model, in about a "
        "minute. With --paper: train a network with the paper's method and its rivals (needs torch; minutes).",
        examples=["positively demo", "positively demo --paper"],
    )
    made.add("out", Folder, "runs/demo", "Folder to write. Finished steps are not done again.")
    made.add_switch("paper", "Compare auto, PU-MLC and BCE on 30 % of the tags with BCE on every label.")
    made.add("seeds", Count, 2, "With --paper: number of seeds.")
    made.add("backbone", Name, "auto", "Without --paper: backbone that embeds the scenes.")
    return made


def main(arguments: list[str]) -> int:
    """Run the demo and show what came out."""
    values = parser().parse(arguments)
    return _paper(Path(values.out), values.seeds) if values.paper else _light(Path(values.out), values.backbone)


def _light(out: Path, backbone: str) -> int:
    from positively.research.demo import run_demo

    began = time.perf_counter()
    for name, value in run_demo(out, backbone).items():
        print(f"{name:<40}{100 * value:6.1f} %")
    tags = out / "scenes" / "train-30-percent-seed0.csv"
    print(
        f"\nMissing tags: {out}/missing. Run, with report.html: {out}/run. {time.perf_counter() - began:.0f} seconds.\n"
        f"Next: positively review {tags}\n"
        "Your own photos: positively missing your-tags.csv --images your-photos/"
    )
    return 0


def _paper(out: Path, seeds: int) -> int:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    from positively.registry import import_room

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
        "All but the last see the same 30 % of the positive tags and no negative; the last sees every label.\n"
        "mAP and F1 on test scenes, F1 at each model's own thresholds. First 100, first 500: share of true tags among "
        "those it would add to the training scenes.\n"
        "PU-MLC is the paper's method; auto solves the head of its network in closed form, and is what we recommend.\n"
        f"Figure: {figure}. Run folders, each with a report.html: {out}/*-seed*. Scenes and tags: {out}/scenes.\n"
        f"{time.perf_counter() - began:.0f} seconds. Next: positively train your-tags.csv --images your-photos/"
    )
    return 0
