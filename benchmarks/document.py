"""Write a generated table into a document: ``python -m benchmarks.document docs/research/methods.md NAME < table.md``.

The table goes between ``<!-- NAME -->`` and ``<!-- /NAME -->``. NAME ``facts`` needs no input: it is read off the
registry of methods.
"""

from __future__ import annotations

import sys
from pathlib import Path

from positively.finetune import METHODS, create_method
from positively.report import Table


def facts() -> str:
    """What every method learns from, needs and keeps, as a Markdown table."""
    rows = []
    for name in sorted(METHODS):
        method = create_method(name)
        learns = "positives, negatives" if method.uses_negatives else "positives"
        depths = "all" if len(method.depths) == 3 else ", ".join(method.depths)
        rows.append((name, learns, "yes" if method.needs_negatives else "", method.head or "any", depths))
    head = ("method", "learns from", "needs negatives", "head", "depths")
    table = Table("", head, tuple(rows), is_text=True)
    return "\n".join(table.markdown().splitlines()[2:]) + "\n"


def inserted(document: str, name: str, text: str) -> str:
    """The document with ``text`` between the marks of this name."""
    before, begin, rest = document.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    if not begin or not end:
        raise SystemExit(f"There is no <!-- {name} --> … <!-- /{name} --> in the document.")
    return f"{before}{begin}{text.strip()}\n{end}{after}"


def main() -> None:
    path, name = Path(sys.argv[1]), sys.argv[2]
    text = facts() if name == "facts" else sys.stdin.read()
    path.write_text(inserted(path.read_text(encoding="utf-8"), name, text), encoding="utf-8")


if __name__ == "__main__":
    main()
