"""``positively review``: a local page on which a person accepts or rejects the tags that are probably missing."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from positively.cli.parsing import Parser, Values, check_config, make_config, next_command, read_options
from positively.cli.paths import require_table
from positively.config import MachineOptions, ModelOptions, TrainConfig
from positively.errors import plural
from positively.options import File, Index, Name
from positively.registry import load_plugin
from positively.tables.options import READABLE, ReadOptions

if TYPE_CHECKING:
    from positively.labels import LabelTable
    from positively.review.session import ReviewSession
    from positively.review.store import DecisionStore

# The embeddings depend on these; the other options are about training.
_MODEL = {"backbone", "weights", "image_size", "embeddings", "head_options"}
_MACHINE = {"cache"}


def parser() -> Parser:
    """Options of the verb."""
    made = Parser(
        "review",
        "TABLE|FOLDER",
        "Accept or reject the tags that are probably missing, on a local page that learns from every answer. Decisions "
        "are stored at once; the table itself is not changed. Run the same command again to continue.",
        examples=[
            "positively review tags.csv --images photos/",
            "positively review tags.csv --images photos/ --export reviewed.csv",
        ],
        common=[
            *("images", "export", "out", "port", "open", "host", "image_column", "tags_column", "separator", "aliases"),
            *("skip_missing_images", "backbone", "embeddings"),
        ],
    )
    made.add_place("table", f"{READABLE[:-1]}; or a folder of photos without tags.")
    made.add("out", File | None, None, "File of decisions; default: <table>.positively/decisions.sqlite.")
    made.add("export", File | None, None, "Write the reviewed table to a .csv, .tsv or .parquet file, and stop.")
    made.add("port", Index | None, None, "Port of the page; default: a free one.")
    made.add(
        "host", Name, "127.0.0.1", "Address to listen at. Any other lets other machines in if they have the token."
    )
    made.add("open", bool, True, "Open the page in a browser.")
    made.add_plugin()
    made.add_group(ReadOptions)
    made.add_group(ModelOptions, only=_MODEL)
    made.add_group(MachineOptions, only=_MACHINE)
    made.add_config()
    return made


def main(arguments: list[str]) -> int:
    """Read the table, embed its images, and serve the page until Ctrl-C."""
    values = parser().parse(arguments)
    source, reading, config = require_table(values.table), read_options(values), make_config(TrainConfig, values)
    from positively.logs import logger
    from positively.review.exporting import check_export
    from positively.review.opening import open_reviewable
    from positively.review.store import DecisionStore
    from positively.tables.write_back import check_writable
    from positively.workspace import Workspace

    if config.plugin:
        load_plugin(config.plugin)
    check_config(config)
    place = Path(values.out) if values.out else Workspace.of(source).decisions
    if values.export:
        check_writable(Path(values.export), source)
        check_export(Path(values.export), place)
    table, notes = open_reviewable(source, reading)
    logger.info("\n".join(notes))
    store = DecisionStore(place, table)
    try:
        if values.export:
            _export(Path(values.export), source, table, reading, store, values)
        else:
            _serve(source, table, reading, store, config, values)
    finally:
        store.close()
    return 0


def _export(
    out: Path, source: Path, table: LabelTable, reading: ReadOptions, store: DecisionStore, values: Values
) -> None:
    from positively.review.exporting import export_table
    from positively.review.tally import Tally

    tally = Tally()
    for action in store.actions():
        tally.add(action)
    labels = sum(export_table(out, source, table, reading, store, tally.states()))
    print(f"{out}: {table.source} with {plural(labels, 'more label')} from the review in {store.path}.")
    print(f"Next: {_train(out, table, values)}")


def _serve(
    source: Path, table: LabelTable, reading: ReadOptions, store: DecisionStore, config: TrainConfig, values: Values
) -> None:
    from positively.pipeline import embed_table
    from positively.review.exporting import export_table, free_export
    from positively.review.guard import Guard, is_loopback
    from positively.review.server import create_app
    from positively.review.serving import listen, serve
    from positively.review.session import ReviewSession
    from positively.tables.overlap import with_hashes

    listening = listen(values.host, values.port)  # before the photos are embedded, which may take minutes
    table = table if config.embeddings else with_hashes(table)
    session = ReviewSession(table, embed_table(table, config).X, store, source, reading)
    guard = Guard(values.host, listening.getsockname()[1])

    exported: list[Path] = []

    def export() -> tuple[Path, int, int]:
        out = free_export(source, store)
        counts = export_table(out, source, table, reading, store, session.decided())
        exported[:] = [out]
        return out, *counts

    print(f"Decisions are stored in {store.path}. {_describe_past(session)}".rstrip())
    if not is_loopback(values.host):
        print(
            "Other machines can open this page if they have the token in its address. The connection is not encrypted."
        )
    print(f"Review at {guard.address}\nPress Ctrl-C to end. Run the same command to continue.", flush=True)
    try:
        with suppress(KeyboardInterrupt):
            serve(create_app(session, guard, export), listening, guard.address, open_browser=values.open)
    finally:
        session.close()
    print(f"\n{_describe_end(session)}")
    if exported:
        print(f"Next: {_train(exported[0], table, values)}")
    else:
        print("To write the reviewed table, add --export FILE.")


def _train(exported: Path, table: LabelTable, values: Values) -> str:
    """The command that trains on the reviewed table, which may be in another folder than its photos."""
    is_elsewhere = values.images is None and exported.parent.resolve() != table.root.resolve()
    images = str(table.root) if is_elsewhere else values.images
    return next_command("train", str(exported), Values(**{**vars(values), "images": images}))


def _describe_past(session: ReviewSession) -> str:
    gained = session.tally.gained()
    rejected = sum(counts.rejected for counts in session.tally.by_tag.values())
    return f"So far: {plural(gained, 'tag')} accepted, {rejected:,} rejected." if gained or rejected else ""


def _describe_end(session: ReviewSession) -> str:
    number = session.store.session
    minutes, gained = session.tally.minutes(number), session.tally.gained(number)
    return (
        f"{plural(gained, 'tag')} gained in {plural(round(minutes), 'minute')}, {session.tally.gained():,} in all. The "
        f"decisions are in {session.store.path}. Run the same command to continue."
    )
