"""``positively demo``: the whole thing on scenes of handwritten digits, in a few minutes."""

import time
from pathlib import Path

from positively.cli.parsing import Parser


def parser() -> Parser:
    """Options of the verb."""
    made = Parser(
        "demo",
        "",
        "Learn handwritten-digit scenes from 30 % of their positive tags, with what we recommend and with the paper's "
        "method, beside BCE that calls the unknown negative and BCE that sees every label; print the figures and draw "
        "them.",
    )
    made.add_argument("--out", type=str, default="runs/demo", help="folder; what is there already is not done again")
    made.add_argument("--seeds", type=int, default=2, help="how many seeds")
    return made


def main(arguments: list[str]) -> int:
    """Run the demo and show what came out."""
    values = parser().parse(arguments)
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    from positively.research.demo import MEASURES, draw, run_demo, summarize

    began, out = time.perf_counter(), Path(values.out)
    results = run_demo(out, values.seeds)
    table = Table(title=f"Percent, mean ± half the spread of {values.seeds} seeds", box=SIMPLE)
    table.add_column("method", no_wrap=True)
    for measure in MEASURES:
        table.add_column(measure, justify="right", no_wrap=True)
    for name, measures in summarize(results).items():
        table.add_row(
            name, *("–" if mean != mean else f"{mean:.1f} ± {spread:.1f}" for mean, spread in measures.values())
        )
    Console(width=max(Console().width, 96)).print(table)
    figure = out / "demo.png"
    draw(results, figure, out / "scenes")
    print(
        "All but the last see the same 30 % of the positive tags and no negative; the last sees every label.\n"
        "mAP and F1 on test scenes, F1 at each model's own thresholds. First 100, first 500: share of true tags among "
        "those it would add to the training scenes.\n"
        "PU-MLC is the paper's method; auto solves the head of its network in closed form, and is what we recommend.\n"
        f"Figure: {figure}. Run folders, each with a report.html: {out}/*-seed*. Scenes and tags: {out}/scenes.\n"
        f"{time.perf_counter() - began:.0f} seconds. Next: positively train your-tags.csv --images your-photos/"
    )
    return 0
