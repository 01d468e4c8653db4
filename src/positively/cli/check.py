"""``positively check``: the machine, a table, its splits and overlaps, without training."""

from positively.cli.parsing import Parser, take
from positively.data.options import READABLE, ReadOptions


def parser() -> Parser:
    """Options of the verb."""
    made = Parser(
        "check", "[TABLE]", "Look at the machine and, if a table is given, at everything that could go wrong."
    )
    made.add_argument(
        "table",
        nargs="?",
        type=str | None,
        default=None,
        help=READABLE,
    )
    made.add_argument("--test", type=str | None, default=None, help="test table: no image of it may be in TABLE")
    made.add_argument("--method", type=str | None, default=None, help="list the options of a method, and stop")
    made.add_group(ReadOptions)
    return made


def main(arguments: list[str]) -> int:
    """Check and say."""
    values = parser().parse(arguments)
    if values.method:
        from positively.methods import method_options

        print(f"Options of {values.method}: {', '.join(method_options(values.method))}.")
        return 0
    from positively.runs.folder import environment

    machine = environment()
    print(f"Python {machine['python']} on {machine['platform']}, {machine['cores']} cores")
    print(", ".join(f"{name} {version}" for name, version in machine["packages"].items()))
    print(f"GPUs: {', '.join(machine['gpus']) or 'none; training takes depth probe unless told otherwise'}")
    if values.table is None:
        return 0

    from positively.data.overlap import refuse_overlap
    from positively.data.reading import read_labels

    reading = take(ReadOptions, values)
    table, notes = read_labels(values.table, reading)
    print("\n" + "\n".join(notes))
    parts = {values.table: table} if table.splits is None else {p: table.split(p) for p in sorted(set(table.splits))}
    if values.test:
        test, notes = read_labels(values.test, reading, classes=table.classes)
        print("\n" + "\n".join(notes))
        parts[f"--test {values.test}"] = test
    refuse_overlap(parts)
    print(f"\nNo image stands in two of: {', '.join(parts)}." if len(parts) > 1 else "\nEverything is in order.")
    return 0
