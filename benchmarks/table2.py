"""Table 2 and figure 2b of the paper at full size, from labels only.

Run as ``python -m benchmarks.table2 LABELS.npz [EMPTY_IMAGES] [FIGURE]``. The file holds ``labels`` (rows packed by
``numpy.packbits``) and ``classes`` of the images with objects. EMPTY_IMAGES images without objects (702 in train2014)
are appended, so that the mask draws other labels than in the order of the annotation file, but about as many. With the
annotation file, ``positively bench --data COCO_FOLDER`` prints the table as published.
"""

import sys
from pathlib import Path

import numpy as np

from positively.labels import NEGATIVE, LabelTable
from positively.report import save_figure
from positively.research.bench.counts import label_counts, table_2
from positively.research.bench.figures import imbalance


def read_packed(path: Path, empty: int) -> LabelTable:
    with np.load(path, allow_pickle=False) as file:
        classes = file["classes"].tolist()
        rows = np.unpackbits(file["labels"], axis=1, count=len(classes))
    positives = [np.flatnonzero(row) for row in rows] + [np.zeros(0, dtype=np.int64)] * empty
    return LabelTable.from_positives([str(i) for i in range(len(positives))], classes, positives, NEGATIVE)


def main() -> None:
    path, *more = sys.argv[1:]
    table = read_packed(Path(path), int(more[0]) if more else 0)
    print(f"{len(table):,} images\n")
    print(table_2(label_counts(table), Path(path).stem).markdown())
    if len(more) > 1:
        print(*save_figure(imbalance(table), Path(more[1])))


if __name__ == "__main__":
    main()
