"""The study on stored embeddings, as reproducible commands.

``python -m benchmarks.study PART FOLDER WEIGHTS --out RESULTS`` from the root of the project. FOLDER holds coco-mini/
and VOCdevkit/ (``--data`` names them), WEIGHTS are those of the backbone. Embeddings are computed once and stored.
Every cell is a file in RESULTS, so that interrupted runs resume and several processes may share a folder. ``--report``
computes nothing; it writes RESULTS/PART.md and figures from existing results. ``--archive FILE`` adds the cells of a
file (docs/research/study.jsonl holds those of the study) to RESULTS; with ``--report`` the file is rewritten.

Parts: ``ablation`` (the probe with one change), ``criterion`` (criteria for choosing λ), ``settings`` (where positives
alone are worse; ``--sizes 300 543 1000 2000`` adds smaller tables), ``budget`` (equal numbers of answers of different
kinds), ``teaching`` (training of the last stage and use of the result; on parts of train). All train on train.csv with
hidden labels and score mAP on val.csv; nothing is chosen on those images.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.document import inserted
from benchmarks.study.archive import pack, unpack
from benchmarks.study.data import BACKBONE, read_photos, within_train
from benchmarks.study.parts import DEPTHS, PARTS, jobs
from benchmarks.study.report import document_text, write_report
from benchmarks.study.running import Study
from positively.errors import ConfigError, PositivelyError
from positively.files import write_text
from positively.probe import LANDMARKS


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.study", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("folder", type=Path, help="folder of the datasets")
    parser.add_argument("weights", help="weights of the backbone")
    parser.add_argument("--backbone", default=BACKBONE)
    parser.add_argument("--data", nargs="+", default=["coco-mini"], help="datasets in the folder")
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--archive", type=Path, help="file with the results of earlier runs, one line per cell")
    parser.add_argument("--features", type=Path, help="folder of the stored embeddings; default: the user's cache")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--settings", nargs="+", default=[], help="settings of the part; default: all")
    parser.add_argument("--sizes", nargs="+", type=int, default=[], help="part settings: additional smaller tables")
    parser.add_argument("--rows", nargs="+", default=[], help="rows of the part, by their names in files; default: all")
    parser.add_argument(
        "--on",
        choices=["test", "train"],
        help="score on the test images, or on a fifth of train (default for part teaching)",
    )
    parser.add_argument("--photos", type=int, help="number of training images, for a quick check")
    parser.add_argument("--landmarks", type=int, default=LANDMARKS)
    parser.add_argument("--document", type=Path, help="with --report: file to insert the tables into, at its marks")
    parser.add_argument("--report", action="store_true", help="write tables and figures of existing results, then stop")
    options = parser.parse_args(arguments)
    try:
        if options.archive:
            unpack(options.archive, options.out)
        if options.report:
            if options.archive:
                pack(options.out, options.archive)
            if options.document:
                with TemporaryDirectory() as place:  # use the rounded values of the archive
                    archived = unpack(options.archive, Path(place)) if options.archive else 0
                    _write_document(options.document, Path(place) if archived else options.out)
            print(write_report(options.part, options.out))
            return
        for place in options.data:
            depth = DEPTHS.get(options.part, "probe")
            photos = read_photos(options.folder / place, options.weights, options.backbone, options.features, depth)
            on = options.on or ("train" if options.part == "teaching" else "test")
            photos = within_train(photos) if on == "train" else photos
            size = min(options.photos or len(photos.features), len(photos.features))
            wanted = jobs(options.part, size, options.seeds, options.settings, options.sizes)
            wrong = sorted({*options.rows} - {job.row for job in wanted})
            if wrong:
                there = ", ".join(dict.fromkeys(job.row for job in wanted))
                raise ConfigError(f"Part {options.part} has no row '{wrong[0]}'; choose from {there}.")
            wanted = [job for job in wanted if not options.rows or job.row in options.rows]
            Study(photos, options.out, options.landmarks).run(wanted, lambda text: print(text, flush=True))
    except PositivelyError as error:
        parser.exit(2, f"{error}\n")


def _write_document(path: Path, out: Path) -> None:
    """Insert the tables of all parts that the document has marks for."""
    text = path.read_text(encoding="utf-8")
    for part in PARTS:
        text = inserted(text, part, document_text(part, out)) if f"<!-- {part} -->" in text else text
    write_text(path, text)


if __name__ == "__main__":
    main()
