"""``positively predict``: tags of images."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from positively.cli.parsing import Parser, Values
from positively.cli.paths import require_images, require_run, split_run
from positively.errors import ConfigError, ImageError, PositivelyError, in_shell, option, plural
from positively.logs import is_first_process
from positively.machine import process_count
from positively.options import Count, File, Folder, Runtime

if TYPE_CHECKING:
    from positively.runs.predictions import Written
    from positively.runs.run import Run
    from positively.runs.tagging import Picture, Prediction


def parser() -> Parser:
    """Options of the verb."""
    made = Parser(
        "predict",
        "[RUN] IMAGE...",
        "Tag images with a trained run. Images that cannot be read are reported and skipped. With --out, an "
        "interrupted command continues where it stopped, and several processes that run the same command share it.",
        examples=["positively predict photos/", "positively predict tags.positively/runs/auto photos/ --out new.csv"],
        common=[
            *("out", "overwrite", "top", "min_precision", "head", "images", "embeddings", "runtime", "plugin"),
        ],
    )
    made.add_place(
        "image",
        "Run folder (default: the latest run in this folder), then image files, folders, or tables of images. "
        "'-' reads a list of paths from standard input.",
        required=False,
        many=True,
    )
    made.add("out", File | None, None, "Write a .csv, .jsonl or .parquet file. By default the tags are printed.")
    made.add_switch("overwrite", "Replace the file if it exists.")
    made.add("top", Count | None, None, "Give this many tags per image, the most probable ones, without thresholds.")
    made.add("images", Folder | None, None, "Folder of a table's images; default: the folder of the table.")
    made.add_run_use()
    made.add_embeddings()
    made.add("runtime", Runtime, "auto", "Program that runs the network. 'auto' is onnx, or torch if there is a GPU.")
    made.add_plugin()
    return made


def main(arguments: list[str]) -> int:
    """Tag the images and print one line each, or write a file."""
    try:
        return _predict(parser().parse(arguments))
    except PositivelyError as error:
        if not is_first_process():  # other processes print nothing else, and the first may not have this error
            print(in_shell(error.message), file=sys.stderr)
        raise


def _predict(values: Values) -> int:
    if values.top is not None and values.min_precision is not None:
        raise ConfigError(
            f"{option('top')} ignores thresholds, and {option('min_precision')} chooses them: pass one of the two."
        )
    if values.out is None and process_count() > 1:
        raise ConfigError(f"Several processes need a file to write to: pass {option('out', 'FILE')}.")
    named, values.image = split_run(values.image)
    values.run = require_run(named, [place for place in values.image if place != "-"][:1])
    if bool(values.image) == bool(values.embeddings):
        raise ConfigError(f"Name images, folders or tables; or pass {option('embeddings', 'FILE')} in their place.")
    require_images(values.image)
    from positively.registry import load_plugin
    from positively.runs.folder import RunFolder
    from positively.runs.pictures import note_learned
    from positively.runs.run import Run
    from positively.runs.saving import load_model_config
    from positively.runs.tagging import Tagger

    if values.plugin:
        load_plugin(values.plugin)
    if values.embeddings:
        return _predict_embeddings(values)
    load_model_config(RunFolder(values.run))  # an error in the run comes before the search for images
    pictures = _pictures(values)
    note_learned(RunFolder(values.run), pictures)
    run = Run(values.run, head=values.head, min_precision=values.min_precision, runtime=values.runtime)
    if values.out is not None:
        return _write(run, pictures, values)
    broken = 0
    for prediction in Tagger(run, values.top)(pictures):
        broken += prediction.error is not None
        print(_line(prediction), file=sys.stderr if prediction.error else sys.stdout)
    if broken == len(pictures):
        raise ImageError("None of the images could be read.")
    return 0


def _predict_embeddings(values: Values) -> int:
    """Tag embeddings from files, without images."""
    from positively.embedding import read_named
    from positively.runs.formats import write_predictions_file
    from positively.runs.run import Run

    run = Run(values.run, head=values.head, min_precision=values.min_precision)
    embeddings, names = read_named(values.embeddings)
    predictions = run.predict_embeddings(embeddings, names, top=values.top)
    if values.out is None:
        for prediction in predictions:
            print(_line(prediction))
        return 0
    path = write_predictions_file(values.out, predictions, overwrite=values.overwrite)
    print(f"Written to {path}: {plural(len(predictions), 'item')}.")
    return 0


def _write(run: Run, pictures: list[Picture], values: Values) -> int:
    from positively.logs import counted_progress
    from positively.runs.predictions import write_predictions

    with counted_progress("Tagging images", len(pictures)) as progress:
        chosen = {"top": values.top, "overwrite": values.overwrite, "progress": progress.advance}
        written = write_predictions(run, pictures, values.out, **chosen)
    if written.is_ours:
        return _report(written)
    if is_first_process():
        print(f"Another process has written {written.path}.")
    return 0


def _pictures(values: Values) -> list[Picture]:
    from positively.runs.pictures import find_pictures, read_list

    if "-" not in values.image:
        return find_pictures(values.image, values.images)
    if len(values.image) > 1:
        raise ConfigError("A list on standard input (-) cannot be combined with other images.")
    if process_count() > 1:
        raise ConfigError("Several processes cannot share standard input. Write the list to a .csv file and name that.")
    pictures = read_list(sys.stdin.buffer.read().decode(errors="surrogateescape"))
    if not pictures:
        raise ImageError("Standard input lists no image. Write one path per line.")
    return pictures


def _report(written: Written) -> int:
    for image, reason in written.broken.items():
        print(f"{image}: skipped, {reason}", file=sys.stderr)
    skipped = f" {len(written.broken):,} could not be read." if written.broken else ""
    print(f"{written.path}: {plural(written.images - len(written.broken), 'image')} tagged.{skipped}")
    return 2 if len(written.broken) == written.images else 0


def _line(prediction: Prediction) -> str:
    if prediction.error:
        return f"{prediction.image}: skipped, {prediction.error}"
    tags = ", ".join(f"{tag} {score:.2f}" for tag, score in prediction.tags.items())
    return f"{prediction.image}: {tags or 'no tag'}"
