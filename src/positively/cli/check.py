"""``positively check``: the machine, a table, its splits and overlaps, without training."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from positively.cli.parsing import Parser, read_options
from positively.errors import ConfigError, in_shell, option
from positively.options import File, Name
from positively.tables.options import READABLE, ReadOptions

if TYPE_CHECKING:
    from positively.labels import LabelTable
    from positively.tables.diagnostics import Problem
    from positively.tables.inspection import Inspection


def parser() -> Parser:
    """Options of the verb."""
    made = Parser(
        "check",
        "[TABLE]",
        "Check a table of tags before anything is computed: how it was understood, images that are missing or broken, "
        "tags that look alike, too few photos. Without a table, show the machine.",
        examples=["positively check tags.csv --images photos/", "positively check tags.csv --test test.csv"],
        common=[
            *("images", "test", "write_aliases", "image_column", "tags_column", "separator", "blank", "aliases"),
            *("skip_missing_images", "embeddings", "method", "head"),
        ],
    )
    made.add_place("table", READABLE, required=False)
    made.add("test", File | None, None, "Test table. No image of it may be in TABLE.")
    made.add(
        "write_aliases", File | None, None, "Write tags that look alike to this CSV file, for --aliases to merge them."
    )
    made.add("method", Name | None, None, "List the options of a training method, and stop.")
    made.add("head", Name | None, None, "List the options of a head, and stop.")
    made.add_embeddings("Files with embeddings. The check tells whether every image has one.")
    made.add_plugin()
    made.add_group(ReadOptions)
    return made


def main(arguments: list[str]) -> int:
    """Look, and tell everything at once; 2 if anything would stop a training."""
    values = parser().parse(arguments)
    if values.method or values.head:
        from positively.cli.listing import list_head, list_method

        if values.method:
            list_method(values.method, values.plugin)
        if values.head:
            list_head(values.head, values.plugin)
        return 0
    reading = read_options(values)
    out = Path(values.write_aliases) if values.write_aliases else None
    if out and values.table is None:
        raise ConfigError(f"{option('write_aliases')} compares the tags of a table. Pass TABLE too.")
    if out and out.exists():
        raise ConfigError(f"{option('write_aliases', str(out))}: the file is there, and stays. Name another one.")
    if values.plugin:
        from positively.registry import load_plugin

        load_plugin(values.plugin)
    _print_machine()
    if values.table is None:
        return 0

    from positively.tables.inspection import find_overlap, inspect_labels

    found = inspect_labels(values.table, reading)
    _show(found.notes)
    problems, parts = found.problems, _parts(values.table, found.table)
    if values.embeddings and found.table is not None:
        from positively.embedding import read_embeddings

        read = read_embeddings(values.embeddings, found.table)
        _show([f"{len(read):,} embeddings of {read.width:,} numbers, one for every image."])
    if values.test:
        classes = None if found.table is None else found.table.classes
        test = inspect_labels(values.test, reading, classes, to_learn_from=False)
        _show(test.notes)
        problems, parts = problems + test.problems, parts | _parts(option("test", values.test), test.table, whole=True)
    overlap = find_overlap(parts)
    if len(parts) > 1 and not any(problem.stops_training for problem in problems + overlap):
        _show([f"No image stands in two of: {', '.join(parts)}."])
    _print_problems(problems + overlap)
    if out:
        _write_aliases(out, found, reading)
    return 2 if any(problem.stops_training for problem in problems + overlap) else 0


def _print_machine() -> None:
    from positively.runs.folder import environment

    machine = environment()
    print(f"Python {machine['python']} on {machine['platform']}, {machine['cores']} cores")
    print(", ".join(f"{name} {version}" for name, version in machine["packages"].items()))
    print(f"GPUs: {', '.join(machine['gpus']) or 'none; training takes depth probe unless told otherwise'}")


def _parts(name: str, table: LabelTable | None, whole: bool = False) -> dict[str, LabelTable]:
    """The splits of a table by their names, or the table as one."""
    if table is None:
        return {}
    return {name: table} if whole or table.splits is None else {p: table.split(p) for p in sorted(set(table.splits))}


def _show(lines: list[str]) -> None:
    if lines:
        print("\n" + in_shell("\n".join(lines)), flush=True)


def _print_problems(problems: list[Problem]) -> None:
    stopping = [f"- {problem.sentence}" for problem in problems if problem.stops_training]
    others = [f"- {problem.sentence}" for problem in problems if not problem.stops_training]
    if stopping:
        print("\n" + in_shell("\n".join(["This would stop a training:", *stopping])), file=sys.stderr, flush=True)
    if others:
        _show(["This is worth a look:", *others])
    if not problems:
        _show(["Everything is in order."])


def _write_aliases(out: Path, found: Inspection, reading: ReadOptions) -> None:
    from positively.tables.names import read_aliases, write_aliases

    if not found.aliases:
        _show([f"No tags look alike, so {out} was not written."])
        return
    # Those in use come along, so that the new file can take the place of the old one.
    known = read_aliases(Path(reading.aliases)) if reading.aliases is not None else {}
    write_aliases(out, known, found.aliases)
    _show([f"{out}: {len(found.aliases)} tags to be merged. Look through it, then pass {option('aliases', str(out))}."])
