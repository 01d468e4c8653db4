"""``positively train``: a classifier from a table of tags."""

from dataclasses import asdict

from positively.cli.parsing import Parser, take
from positively.config import GROUPS, TrainConfig
from positively.tables.options import READABLE, ReadOptions


def parser() -> Parser:
    """Options of the verb."""
    made = Parser(
        "train",
        "TABLE",
        "Train a classifier from a table of tags, COCO or PASCAL VOC. With nothing but the table and --images it "
        "picks what suits this machine and says so.",
    )
    made.add_argument("table", type=str, help=READABLE)
    made.add_argument("--config", action="config", help="YAML file with any of these options")
    made.add_recipe()
    for group in (ReadOptions, *GROUPS):
        made.add_group(group)
    return made


def main(arguments: list[str]) -> int:
    """Read, train, say where the run is."""
    values, recipe = parser().parse_recipe(arguments)
    from positively.distributed import broadcast
    from positively.errors import PositivelyError
    from positively.export.finished import export_training
    from positively.finetune.auto import check_config
    from positively.finetune.run import train
    from positively.finetune.runtime import launch
    from positively.logs import logger
    from positively.models import find_backbone
    from positively.registry import load_plugin
    from positively.report.finished import report_training
    from positively.runs.folder import RunFolder
    from positively.tables.reading import read_labels

    config, reading = take(TrainConfig, values), take(ReadOptions, values)
    if config.plugin:
        load_plugin(config.plugin)
    if recipe and config.method == recipe.train["method"]:
        config.options.setdefault("gamma", recipe.options(config.known_ratio)["gamma"])
    # Before anything is decoded: a typing error is not to be found after minutes.
    check_config(config)
    if config.backbone != "auto":
        find_backbone(config.backbone)
    if config.out is not None:
        RunFolder(config.out).refuse_others(resume=config.resume == "auto")
    fabric = launch(config)
    # One process looks at the images, all of them get what it found.
    table, problem = None, None
    if fabric.is_global_zero:
        try:
            table, notes = read_labels(values.table, reading)
            logger.info("\n".join(notes))
        except PositivelyError as error:
            problem = error.message
    table, problem = broadcast((table, problem))
    if problem is not None:
        raise PositivelyError(problem)
    run = train(table, config, fabric=fabric, reading={"table": values.table, **asdict(reading)})
    export_training(run)
    report_training(run, table)
    return 0
