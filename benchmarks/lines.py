"""Count lines of Python by room, including blanks and comments: ``python -m benchmarks.lines [--source SRC]``."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

WINGS = {"losses", "models", "finetune", "distributed.py", "research"}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, default=Path(__file__).parents[1] / "src", help="src of any version")
    package = parser.parse_args(arguments).source / "positively"
    lines: Counter[str] = Counter()
    for path in sorted(package.rglob("*.py")):
        lines[path.relative_to(package).parts[0]] += len(path.read_text(encoding="utf-8").splitlines())
    for room, count in sorted(lines.items(), key=lambda item: -item[1]):
        print(f"{room:<18}{count:7,}{'  wing' if room in WINGS else ''}")
    wings = sum(count for room, count in lines.items() if room in WINGS)
    print(f"{'core':<18}{lines.total() - wings:7,}\n{'wings':<18}{wings:7,}\n{'all':<18}{lines.total():7,}")


if __name__ == "__main__":
    main()
