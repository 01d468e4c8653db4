"""``positively embed``: embeddings of photos as a file, for ``--embeddings`` and for other programs."""

from __future__ import annotations

from pathlib import Path

from positively.cli.parsing import Parser, make_config, read_options
from positively.cli.paths import require_table
from positively.config import MachineOptions, ModelOptions, TrainConfig
from positively.errors import plural
from positively.options import File
from positively.tables.options import READABLE, ReadOptions

_MODEL, _MACHINE = {"backbone", "weights", "image_size", "head_options"}, {"cache"}


def parser() -> Parser:
    """Options of the verb."""
    made = Parser(
        "embed",
        "PHOTOS --out FILE",
        "Embed photos with a frozen backbone and write the embeddings to a file: .npz, .npy, .parquet or .safetensors. "
        "The other verbs take the file with --embeddings, and do not open the photos then.",
        examples=["positively embed photos/ --out embeddings.npz"],
        common=[
            *("out", "overwrite", "backbone", "weights", "image_size", "head_options", "images", "image_column"),
            *("skip_missing_images", "skip_broken", "cache", "plugin"),
        ],
    )
    made.add_place("photos", f"A folder of photos, or a table: {READABLE}")
    made.add("out", File, None, "File to write.")
    made.add_switch("overwrite", "Replace the file if it exists.")
    made.add_group(ModelOptions, only=_MODEL)
    made.add_group(MachineOptions, only=_MACHINE)
    made.add_plugin()
    made.add_group(ReadOptions)
    return made


def main(arguments: list[str]) -> int:
    """Embed the images and write the file."""
    values = parser().parse(arguments)
    photos, config, out = require_table(values.photos), make_config(TrainConfig, values), Path(values.out)
    from positively.embedding import DEFAULT, write_embeddings
    from positively.embedding.from_file import check_writable
    from positively.logs import logger
    from positively.pipeline import check_probe_config, embed_table
    from positively.registry import load_plugin
    from positively.review.opening import open_table
    from positively.tables.overlap import with_hashes

    if values.plugin:
        load_plugin(values.plugin)
    check_writable(out, overwrite=values.overwrite)
    check_probe_config(config)
    table, notes = open_table(photos, read_options(values))
    logger.info("\n".join(notes))
    embeddings = embed_table(with_hashes(table), config)
    write_embeddings(out, embeddings, table)
    backbone = DEFAULT if config.backbone == "auto" else config.backbone
    print(f"{out}: {plural(len(embeddings), 'embedding')} of {embeddings.width:,} numbers, by {backbone}.")
    return 0
