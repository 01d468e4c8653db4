"""``positively evaluate``: metrics of a run on a table of test images."""

from dataclasses import replace
from pathlib import Path

from positively.cli.parsing import Parser, read_options
from positively.cli.paths import require_run, require_table
from positively.errors import ConfigError
from positively.options import File, Name
from positively.tables.options import READABLE, ReadOptions
from positively.workspace import is_run


def parser() -> Parser:
    """Options of the verb."""
    made = Parser(
        "evaluate",
        "[RUN] TABLE",
        "Score a trained run on a table of test images: mAP, F1 and more, in total and per class. Unknown labels are "
        "never scored; if the table lists all tags of each image, pass --blank negative.",
        examples=["positively evaluate test.csv --images photos/ --blank negative"],
        common=[
            *("images", "blank", "split", "part", "out", "min_precision", "head", "embeddings", "image_column"),
            *("tags_column", "separator", "skip_missing_images"),
        ],
    )
    made.add_place("run", "Run folder; default: the latest run in this folder.", required=False)
    made.add_place("table", READABLE)
    made.add("split", Name | None, None, "Part of the table; default: 'test' if it has one.")
    made.add("out", File | None, None, "JSON file to write; default: evaluation.json in the run folder.")
    made.add_run_use()
    made.add_embeddings()
    made.add_plugin()
    made.add_group(ReadOptions)
    return made


def main(arguments: list[str]) -> int:
    """Score the run on the table, print and write the result."""
    values = parser().parse(arguments)
    if values.run is None and is_run(Path(values.table)):
        raise ConfigError(f"{values.table} is a run. Name the table with the test images after it.")
    require_table(values.table)
    values.run = require_run(values.run, [values.table])
    from positively.embedding import read_embeddings
    from positively.logs import counted_progress, logger
    from positively.registry import load_plugin
    from positively.runs.card import check_place, describe_thresholds, write_evaluation
    from positively.runs.run import Run
    from positively.tables.reading import read_labels

    if values.plugin:
        load_plugin(values.plugin)
    if values.out:
        check_place(Path(values.out))
    run = Run(values.run, head=values.head, min_precision=values.min_precision)
    # The run cannot be scored on tags that it does not know; a note counts them.
    reading = replace(read_options(values), unknown_tags="ignore")
    table, notes = read_labels(values.table, reading, classes=run.classes)
    logger.info("\n".join(notes))
    split = values.split or ("test" if table.splits is not None and "test" in table.splits else None)
    table = table.split(split) if split else table
    with counted_progress("Scoring images", len(table)) as progress:
        embeddings = read_embeddings(values.embeddings, table) if values.embeddings else None
        evaluation = run.evaluate(table, embeddings=embeddings, progress=progress.advance)
    out = write_evaluation(run, evaluation, values.out, table=values.table, split=split)
    used = describe_thresholds({"head": run.head, "min_precision": run.min_precision})
    right, found = 100 * evaluation.f1.overall_precision, 100 * evaluation.f1.overall_recall
    print(
        f"\n{right:.0f} % of the tags it gives are right; it finds {found:.0f} % of the true tags. "
        f"mAP {100 * evaluation.mean_average_precision:.1f} %."
    )
    print(f"\n{evaluation}\n\n'own thresholds' are {used}. Written to {out}.")
    return 0
