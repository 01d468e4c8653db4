"""``positively predict``: tags of images."""

import csv
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from positively.cli.parsing import Parser
from positively.errors import ConfigError, option

if TYPE_CHECKING:
    from positively.predict import Prediction


def parser() -> Parser:
    """Options of the verb."""
    made = Parser("predict", "RUN IMAGE...", "Tag images, or all images under folders, with a trained run.")
    made.add_argument("run", type=str, help="run folder")
    made.add_argument("images", nargs="+", type=str, help="image files or folders")
    made.add_argument("--out", type=str | None, default=None, help="write a .csv or .jsonl file in place of printing")
    made.add_argument("--top", type=int | None, default=None, help="this many best tags, whatever the cuts say")
    made.add_run_use()
    made.add_switch("skip_broken", help="leave unreadable images without tags, and name them, in place of stopping")
    made.add_argument("--workers", type=int, default=0, help="processes that read images")
    made.add_plugin()
    return made


def main(arguments: list[str]) -> int:
    """Predict, one line an image."""
    values = parser().parse(arguments)
    from positively.cli.progress import counting
    from positively.predict import Run, find_images
    from positively.registry import load_plugin

    if values.plugin:
        load_plugin(values.plugin)
    images = find_images(values.images)
    run = Run(values.run, head=values.head, precision=values.precision)
    predictions = run.stream(images, top=values.top, skip_broken=values.skip_broken, workers=values.workers)
    if values.out is None:
        for prediction in predictions:
            print(_line(prediction))
        return 0
    broken = []
    with _opened(Path(values.out)) as file, counting("tagging", len(images)) as progress:
        if values.out.endswith(".csv"):
            csv.writer(file).writerow(["image", "tags", "scores"])
        for prediction in predictions:
            progress(1)
            if prediction.error:
                broken.append(f"{prediction.image} ({prediction.error})")
            if values.out.endswith(".csv"):
                scores = ";".join(f"{score:.4f}" for score in prediction.tags.values())
                csv.writer(file).writerow([prediction.image, ";".join(prediction.tags), scores])
            else:
                record = {"image": prediction.image, "tags": prediction.tags, "error": prediction.error}
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
    for line in broken:
        print(f"skipped {line}", file=sys.stderr)
    print(f"{len(images) - len(broken):,} images tagged in {values.out}.")
    return 0


def _line(prediction: "Prediction") -> str:
    if prediction.error:
        return f"{prediction.image}: skipped, {prediction.error}"
    tags = ", ".join(f"{tag} {score:.2f}" for tag, score in prediction.tags.items())
    return f"{prediction.image}: {tags or 'no tag'}"


@contextmanager
def _opened(out: Path) -> Iterator[TextIO]:
    """A file that appears under its name when it is complete."""
    if out.suffix not in (".csv", ".jsonl"):
        raise ConfigError(f"{option('out', str(out))}: the ending says the format, .csv or .jsonl.")
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f".{out.name}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            yield file
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)
