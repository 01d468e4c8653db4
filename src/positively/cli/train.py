"""``positively train``: a classifier from a table of tags."""

from dataclasses import asdict

from positively.cli.parsing import Parser, check_config, make_config, read_options
from positively.cli.paths import require_table
from positively.config import GROUPS, TrainConfig
from positively.registry import load_plugin
from positively.tables.options import CHOSEN_BY_VERBS, READABLE, ReadOptions


def parser() -> Parser:
    """Options of the verb."""
    made = Parser(
        "train",
        "TABLE",
        "Train a classifier from a table of tags, COCO or PASCAL VOC. By default it fits a probe on a frozen backbone, "
        "which takes seconds once the embeddings of the images are stored.",
        examples=[
            "positively train tags.csv --images photos/",
            "positively train tags.csv --method pu-mlc --depth finetune --lgconv",
        ],
        common=[
            *("images", "out", "method", "depth", "backbone", "lgconv", "epochs", "method_options", "blank"),
            *("min_count", "skip_missing_images", "embeddings", "resume", "config", "recipe"),
        ],
    )
    made.add_place("table", READABLE)
    made.add_recipe()
    for group in (ReadOptions, *GROUPS):
        made.add_group(group)
    made.add_config()
    return made


def main(arguments: list[str]) -> int:
    """Read the table and train; 2 if the run gives no tags."""
    values = parser().parse(arguments)
    source, config, reading = require_table(values.table), make_config(TrainConfig, values), read_options(values)
    if config.plugin:
        load_plugin(config.plugin)
    if values.recipe:
        from positively.research.recipes import read_recipe

        recipe = read_recipe(values.recipe)
        if config.method == recipe.train["method"]:
            config.method_options.setdefault("gamma", recipe.options(config.known_ratio)["gamma"])
    check_config(config)
    from positively.runs.folder import RunFolder

    if config.out is not None:
        RunFolder(config.out).refuse_others(resume=config.resume == "auto")
    from positively.api import train_file
    from positively.report.finished import report_training
    from positively.runs.outcome import gives_tags

    told = {"table": values.table, **asdict(reading)}
    told = {name: value for name, value in told.items() if name not in CHOSEN_BY_VERBS}
    run, table = train_file(source, reading, config, told)
    report_training(run, table)
    return 0 if gives_tags(RunFolder(run)) else 2
