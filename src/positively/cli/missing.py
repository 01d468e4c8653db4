"""``positively missing``: the tags that are probably missing from a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from positively.cli.parsing import Parser, Values, check_config, make_config, next_command, read_options
from positively.cli.paths import require_run, require_table
from positively.config import MachineOptions, ModelOptions, TrainConfig
from positively.errors import ConfigError, and_more, plural
from positively.options import Folder, Range, Share
from positively.registry import load_plugin
from positively.tables.options import READABLE, ReadOptions
from positively.workspace import Workspace, is_run

if TYPE_CHECKING:
    from positively.labels import LabelTable
    from positively.missing import MissingTags
    from positively.missing.files import MissingFolder

    Finding = tuple[MissingTags, LabelTable | None, Path | None, ReadOptions]

# Missing tags from this probability on go into a column of the table.
_LIKELY = 0.5
_NAME_ONE = "Name a table of tags, or a run folder: positively missing tags.csv --images photos/"
# Options that apply to a run too.
_OF_A_RUN = {"out", "min_probability", "accept_above", "format", "images", "plugin"}


def parser() -> Parser:
    """Options of the verb."""
    made = Parser(
        "missing",
        "[TABLE|RUN]",
        "List the tags that are probably missing from a table, with their probabilities, and the tags that look wrong. "
        "It takes seconds once the embeddings of the images are stored.",
        examples=["positively missing tags.csv --images photos/", "positively missing tags.csv --accept-above 0.95"],
        common=[
            *("images", "out", "min_probability", "accept_above", "format", "image_column", "tags_column", "separator"),
            *("blank", "aliases", "min_count", "skip_missing_images", "backbone", "embeddings", "config"),
        ],
    )
    made.add_place("table", f"{READABLE[:-1]}; or a run folder. Default: the latest run here.", required=False)
    made.add(
        "out",
        Folder | None,
        None,
        "Folder to write; default: <table>.positively/missing, or missing/ in the run.",
    )
    made.add("min_probability", Share, 0.05, "Leave out tags that are less probable. 0 lists every unknown tag.")
    made.add(
        "accept_above",
        Share | None,
        None,
        "Add tags of this probability or more to the table's own tags, such as 0.95. By default, the table gets them "
        "in a column 'missing', from 0.5 on.",
    )
    made.add("format", Literal["csv", "parquet"], "csv", "Format of the lists.")
    made.add("folds", Annotated[int, Range(minimum=2)], 5, "Trainings, if --config asks for a network that learns.")
    made.add_group(ReadOptions)
    made.add_group(ModelOptions, only={"backbone", "weights", "image_size", "embeddings", "head_options"})
    made.add_group(MachineOptions, only={"cache"})
    made.add_plugin()
    made.add_config()
    return made


def main(arguments: list[str]) -> int:
    """Find missing tags, print and write them; 2 if no tag could be judged."""
    values = parser().parse(arguments)
    source = require_run(None, otherwise=_NAME_ONE) if values.table is None else require_table(values.table)
    in_run, config = is_run(source), make_config(TrainConfig, values)
    if config.plugin:
        load_plugin(config.plugin)
    if in_run:
        _refuse_idle_options(values)
    else:
        check_config(config)
    from positively.missing.files import MissingFolder
    from positively.missing.result import PLACES
    from positively.tables.parquet import import_pyarrow

    if values.format == "parquet":
        import_pyarrow("Writing")
    folder = MissingFolder(values.out or (source / "missing" if in_run else Workspace.of(source).missing), source)
    accept = values.accept_above is not None
    above = values.accept_above if accept else _LIKELY
    # The table may gain tags below the minimum of the list, and 0.49996 is listed as 0.5.
    lowest = max(min(values.min_probability, above) - 10**-PLACES, 0.0)
    found, table, read_from, reading = (
        _find_in_run(source, values, lowest) if in_run else _find_in_table(source, config, values, lowest, folder)
    )
    listed = found.above(values.min_probability)
    files = folder.write(listed, values.format, {"source": str(source)}, read_from)
    print(f"\n{listed}\n\n{_first(found)}\n")
    print(f"Written to {folder.path}: {', '.join(file.name for file in files)}.")
    if table is not None and read_from is not None:
        out, count = folder.write_tags(found, table, read_from, reading, above, accept)
        print(_describe_table(out, read_from, count, above, accept))
    if not in_run:
        print(f"Next, a page to accept and reject them: {next_command('review', values.table, values)}")
    return 0 if found.counts.learned.any() else 2


def _refuse_idle_options(values: Values) -> None:
    """Raise if an option does not apply to a run."""
    made = parser()
    options = (made.options | made.in_file).values()
    idle = [one.flag for one in options if one.name not in _OF_A_RUN and getattr(values, one.name) != one.default]
    if idle:
        raise ConfigError(
            f"{and_more(idle)}: a run has stored scores, so this does not apply. Pass a table, or RUN alone."
        )


def _find_in_table(
    source: Path, config: TrainConfig, values: Values, min_probability: float, folder: MissingFolder
) -> Finding:
    from positively.api import missing
    from positively.logs import logger
    from positively.tables.reading import read_labels

    reading = read_options(values)
    table, notes = read_labels(source, replace(reading, to_learn=True))
    logger.info("\n".join(notes))
    return (
        missing(table, config, min_probability=min_probability, folds=values.folds, store=folder.folds),
        table,
        source,
        reading,
    )


def _find_in_run(source: Path, values: Values, min_probability: float) -> Finding:
    """Use the scores that the run stored. Its table is read only to be written with the tags that were found."""
    from positively.errors import PositivelyError
    from positively.logs import logger
    from positively.options import kinds_of
    from positively.runs.missing import missing_in_run
    from positively.runs.run import Run
    from positively.runs.sources import read_config
    from positively.tables.reading import read_labels

    run = Run(source)
    found = missing_in_run(run, min_probability=min_probability)
    config = read_config(run.folder)
    reading = ReadOptions(**{name: config[name] for name in kinds_of(ReadOptions) if name in config})
    if values.images is not None:
        reading = replace(reading, images=values.images)
    try:
        table, _ = read_labels(config["table"], replace(reading, verify=False), classes=run.classes)
    except (PositivelyError, KeyError) as error:
        reason = error.message if isinstance(error, PositivelyError) else "the run was not trained from a file."
        logger.warning(f"The table of the run is not written with its missing tags: {reason}")
        return found, None, None, reading
    return found, table, Path(config["table"]), reading


def _describe_table(out: Path, source: Path, count: int, above: float, accept: bool) -> str:
    if not count:
        return f"{out} is the table without changes: no missing tag has a probability of {above:g} or more."
    where = "added to its own tags" if accept else "in the column 'missing'"
    why = "" if out.stem == source.stem else f" (The name '{source.stem}{out.suffix}' is taken there.)"
    tags = plural(count, "more tag")
    return f"{out} is the table with {tags} of probability {above:g} or more, {where}.{why}"


def _first(found: MissingTags, count: int = 10, each: int = 2) -> str:
    """The first suggestions, not all of one tag."""
    shown: list[str] = []
    listed: Counter[str] = Counter()
    for suggestion in found:
        if len(shown) == count or suggestion.value < _LIKELY:
            break
        if listed[suggestion.tag] < each:
            listed[suggestion.tag] += 1
            shown.append(f"{suggestion.value:6.2f}  {suggestion.tag:<20} {suggestion.image}")
    return "\n".join(["Most probable, at most two per tag:", *shown]) if shown else "No tag has a probability of 0.5."
