"""``positively report``: a one-page summary of a run."""

from positively.cli.parsing import Parser
from positively.cli.paths import require_run
from positively.options import File, Folder


def parser() -> Parser:
    """Options of the verb."""
    made = Parser(
        "report",
        "[RUN]",
        "Write one self-contained HTML page about a trained run: the most probable missing tags with their photos, the "
        "quality of the run and of every tag, and the training options. `train` writes it too; write it again after "
        "`evaluate`, or if the photos have moved.",
        examples=["positively report", "positively report tags.positively/runs/auto --out report.html"],
    )
    made.add_place("run", "Run folder; default: the latest run in this folder.", required=False)
    made.add("out", File | None, None, "HTML file to write; default: report.html in the run folder.")
    made.add("images", Folder | None, None, "Folder of the images; default: where they were in training.")
    made.add_plugin()
    return made


def main(arguments: list[str]) -> int:
    """Write the page and print its path."""
    values = parser().parse(arguments)
    values.run = require_run(values.run)
    from positively.logs import counted_progress
    from positively.registry import load_plugin
    from positively.report.run.writing import write_run_report

    if values.plugin:
        load_plugin(values.plugin)
    with counted_progress("Writing the report"):
        page = write_run_report(values.run, values.out, images=values.images)
    print(f"Report: {page} ({page.stat().st_size / 1e6:.1f} MB).")
    return 0
