"""Write a generated table into a document: ``python -m benchmarks.document docs/research/methods.md NAME < table.md``.

The table goes between ``<!-- NAME -->`` and ``<!-- /NAME -->``. Two names need no input: ``facts`` comes from the
registry of methods, ``auto`` from the archived results of the study.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.study.archive import unpack
from benchmarks.study.reading import read_found
from benchmarks.study.settings import UNIFORM
from benchmarks.study.variants import AUTO, WITH_NEGATIVES
from positively.finetune import METHODS, create_method
from positively.report import Table

ARCHIVE = Path(__file__).parents[1] / "docs" / "research" / "study.jsonl"


def facts() -> str:
    """What each method learns from and needs, as a Markdown table."""
    rows = []
    for name in sorted(METHODS):
        method = create_method(name)
        learns = "positives, negatives" if method.uses_negatives else "positives"
        depths = "all" if len(method.depths) == 3 else ", ".join(method.depths)
        rows.append((name, learns, "yes" if method.needs_negatives else "", method.head or "any", depths))
    head = ("method", "learns from", "needs negatives", "head", "depths")
    return _markdown(head, rows)


def auto() -> str:
    """The mAP of ``auto`` by known ratio with the default backbone, as a Markdown table."""
    ratios, rows = UNIFORM[:-1], []
    with TemporaryDirectory() as folder:
        unpack(ARCHIVE, Path(folder))
        for found in read_found(Path(folder)):
            if found.backbone == "tf_efficientnet_lite0" and found.values(ratios[0].name, WITH_NEGATIVES.name):
                for row in (AUTO, WITH_NEGATIVES):
                    means = [str(found.mean(ratio.name, row.name)) for ratio in ratios]
                    rows.append((f"{found.dataset}: {row.title}", *means))
    return _markdown(("", *(ratio.title for ratio in ratios)), rows)


def _markdown(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    table = Table("", head, tuple(rows), is_text=True)
    return "\n".join(table.markdown().splitlines()[2:]) + "\n"


GENERATED = {"facts": facts, "auto": auto}
"""Tables that need no input, by name."""


def inserted(document: str, name: str, text: str) -> str:
    """The document with ``text`` between the marks of this name."""
    before, begin, rest = document.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    if not begin or not end:
        raise SystemExit(f"The document has no marks <!-- {name} --> and <!-- /{name} -->.")
    return f"{before}{begin}{text.strip()}\n{end}{after}"


def main() -> None:
    path, name = Path(sys.argv[1]), sys.argv[2]
    text = GENERATED[name]() if name in GENERATED else sys.stdin.read()
    path.write_text(inserted(path.read_text(encoding="utf-8"), name, text), encoding="utf-8")


if __name__ == "__main__":
    main()
