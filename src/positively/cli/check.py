"""``positively check``: a table, its splits and overlaps, and the machine, without training."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from positively.cli.parsing import Parser, Values, read_options
from positively.cli.paths import require_table
from positively.errors import ConfigError, PositivelyError, in_shell, option, plural
from positively.options import File, Name
from positively.tables.diagnostics import Problem
from positively.tables.options import READABLE, ReadOptions

if TYPE_CHECKING:
    from positively.labels import LabelTable


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
            *("skip_missing_images", "embeddings", "json", "method", "head"),
        ],
    )
    made.add_place("table", READABLE, required=False)
    made.add("test", File | None, None, "Test table. No image of it may be in TABLE.")
    made.add(
        "write_aliases", File | None, None, "Write tags that look alike to this CSV file, for --aliases to merge them."
    )
    made.add_switch("json", "Print the result as JSON, for programs.")
    made.add("method", Name | None, None, "List the options of a training method, and stop.")
    made.add("head", Name | None, None, "List the options of a head, and stop.")
    made.add_embeddings("Files with embeddings. The check tells whether every image has one.")
    made.add_plugin()
    made.add_group(ReadOptions)
    return made


@dataclass
class Result:
    """What was found out about a table and the machine."""

    table: LabelTable | None = None
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)

    @property
    def stops(self) -> bool:
        """Whether any problem stops a training."""
        return any(problem.stops_training for problem in self.problems)


def main(arguments: list[str]) -> int:
    """Check, and print everything at once; 2 if anything would stop a training."""
    values = parser().parse(arguments)
    if values.method or values.head:
        from positively.cli.listing import list_head, list_method

        if values.method:
            list_method(values.method, values.plugin)
        if values.head:
            list_head(values.head, values.plugin)
        return 0
    out = Path(values.write_aliases) if values.write_aliases else None
    if out and values.table is None:
        raise ConfigError(f"{option('write_aliases')} compares the tags of a table. Pass TABLE too.")
    if out and out.exists():
        raise ConfigError(f"{option('write_aliases', str(out))}: this file exists. Name another one.")
    for table in (values.table, values.test):
        if table is not None:
            require_table(table)
    if values.plugin:
        from positively.registry import load_plugin

        load_plugin(values.plugin)
    try:
        result = Result() if values.table is None else _check(values)
    except PositivelyError as error:
        if not values.json:
            raise
        result = Result(problems=[Problem("unreadable table", error.message, stops_training=True)])
    if values.json:
        print(json.dumps(_as_json(result), indent=2, ensure_ascii=False))
    elif values.table is None:
        _print_machine()
    else:
        _print(values.table, result)
    if out:
        _write_aliases(out, result.aliases, values)
    return 2 if result.stops else 0


def _check(values: Values) -> Result:
    from positively.tables.inspection import find_overlap, inspect_labels

    reading = read_options(values)
    found = inspect_labels(values.table, reading)
    result = Result(found.table, [*found.notes], [*found.problems], found.aliases)
    parts = _parts(values.table, found.table)
    if values.embeddings and found.table is not None:
        from positively.embedding import read_embeddings

        read = read_embeddings(values.embeddings, found.table)
        result.notes.append(f"{plural(len(read), 'embedding')} of {read.width:,} numbers, one for every image.")
    if values.test:
        classes = None if found.table is None else found.table.classes
        # A run ignores test tags that it does not know.
        test = inspect_labels(values.test, replace(reading, unknown_tags="ignore"), classes, to_learn_from=False)
        result.notes += test.notes
        result.problems += test.problems
        parts |= _parts(option("test", values.test), test.table, whole=True)
    result.problems += find_overlap(parts)
    if len(parts) > 1 and not result.stops:
        result.notes.append(f"No image is in two of: {', '.join(parts)}.")
    return result


def _parts(name: str, table: LabelTable | None, whole: bool = False) -> dict[str, LabelTable]:
    """The splits of a table by their names, or the table as one."""
    if table is None:
        return {}
    return {name: table} if whole or table.splits is None else {p: table.split(p) for p in sorted(set(table.splits))}


def _print(name: str, result: Result) -> None:
    """The summary first, then how the table was understood, then the problems."""
    stopping = [f"- {problem.sentence}" for problem in result.problems if problem.stops_training]
    others = [f"- {problem.sentence}" for problem in result.problems if not problem.stops_training]
    ready = f"{name} is ready" if not stopping else f"{name} cannot be used yet"
    counts = [plural(len(stopping), "problem")] * bool(stopping) + [plural(len(others), "hint")] * bool(others)
    summary = f"{ready}: {' and '.join(counts) or 'no problem found'}."
    print(in_shell("\n".join([summary, "", *result.notes])), flush=True)
    if stopping:
        print("\n" + in_shell("\n".join(["Problems to fix first:", *stopping])), file=sys.stderr, flush=True)
    if others:
        print("\n" + in_shell("\n".join(["Hints:", *others])), flush=True)


def _print_machine() -> None:
    from positively.runs.folder import environment

    machine = environment()
    print(f"Python {machine['python']} on {machine['platform']}, {plural(machine['cores'], 'core')}")
    print(", ".join(f"{name} {version}" for name, version in machine["packages"].items()))
    print(f"GPUs: {', '.join(machine['gpus']) or 'none'}")


def _as_json(result: Result) -> dict[str, Any]:
    """The result for programs. A code names the kind of a problem, such as ``missing-images``."""
    from positively.labels import NEGATIVE, POSITIVE
    from positively.runs.folder import environment

    table = result.table
    summary = table and {
        "source": table.source,
        "images": len(table),
        "classes": len(table.classes),
        "positives": table.total(POSITIVE),
        "negatives": table.total(NEGATIVE),
        "tags": dict(zip(table.classes, map(int, table.counts(POSITIVE)), strict=True)),
    }
    problems = [
        {
            "code": problem.kind.replace(" ", "-"),
            "sentence": in_shell(problem.sentence),
            "stops_training": problem.stops_training,
        }
        for problem in result.problems
    ]
    notes = [in_shell(note) for note in result.notes]
    facts = {"table": summary, "notes": notes, "problems": problems, "aliases": result.aliases}
    return {"ready": not result.stops, "machine": environment(), **facts}


def _write_aliases(out: Path, aliases: dict[str, str], values: Values) -> None:
    from positively.tables.names import read_aliases, write_aliases

    if not aliases:
        print(f"\nNo tags look alike, so {out} was not written.")
        return
    # The new file replaces the old one, so it has the aliases of both.
    in_use = read_aliases(Path(values.aliases)) if values.aliases is not None else {}
    write_aliases(out, in_use, aliases, source=Path(values.table))
    merged = plural(len(aliases), "tag")
    print(in_shell(f"\n{out}: {merged} to merge. Look through it, then pass {option('aliases', str(out))}."))
