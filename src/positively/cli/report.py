"""``positively report``: what is to be known of a run, as one page."""

from positively.cli.parsing import Parser
from positively.cli.paths import require_run


def parser() -> Parser:
    """Options of the verb."""
    made = Parser(
        "report",
        "RUN",
        "Write one self-contained HTML page about a trained run: the most probable missing tags with their photos, how "
        "good it is and how we know, every tag with counts and intervals, and what was trained on what. It is written "
        "at the end of train already; write it again after evaluate, or when the photos have moved.",
    )
    made.add_argument("run", type=str, help="run folder")
    made.add_argument("--out", type=str | None, default=None, help="the page; default: report.html in the run folder")
    made.add_argument(
        "--images",
        type=str | None,
        default=None,
        help="folder in which the images lie; default: where they were when the run was trained",
    )
    made.add_plugin()
    return made


def main(arguments: list[str]) -> int:
    """Write the page, say where it is."""
    values = parser().parse(arguments)
    require_run(values.run)
    from positively.registry import load_plugin
    from positively.report.run.writing import write_run_report

    if values.plugin:
        load_plugin(values.plugin)
    page = write_run_report(values.run, values.out, images=values.images)
    print(f"Report: {page} ({page.stat().st_size / 1e6:.1f} MB).")
    return 0
