"""``positively train``: a classifier from a table of tags."""

from dataclasses import asdict, replace

from positively.cli.parsing import Parser, take
from positively.data.options import READABLE, ReadOptions
from positively.training.config import GROUPS, TrainConfig


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
    from positively.data.reading import read_labels
    from positively.training.fit import train
    from positively.training.runtime import launch

    config, reading = take(TrainConfig, values), take(ReadOptions, values)
    if recipe and config.method == recipe.train["method"]:
        config.options.setdefault("gamma", recipe.options(config.known_ratio)["gamma"])
    fabric = launch(config)
    # Every process needs the same rows; only where broken images are left out do all have to look for them.
    verify = reading.verify and (fabric.is_global_zero or reading.skip_broken)
    table, notes = read_labels(values.table, replace(reading, verify=verify))
    if fabric.is_global_zero:
        print("\n".join(notes), flush=True)
    train(table, config, fabric=fabric, reading={"table": values.table, **asdict(reading)})
    return 0
