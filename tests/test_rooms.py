"""Files stay small, help is quick, names are words. Which room imports which: import-linter, in pyproject.toml."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "positively"
FILES = sorted(PACKAGE.rglob("*.py"))


def test_files_stay_small():
    pages = [path for ending in ("css", "js", "html") for path in PACKAGE.rglob(f"*.{ending}")]
    lengths = {str(path.relative_to(PACKAGE)): len(path.read_text().splitlines()) for path in [*FILES, *pages]}
    assert not {name: length for name, length in lengths.items() if length > 400}
    assert sorted(lengths.values())[len(lengths) // 2] < 150


@pytest.mark.parametrize("words", [["--help"], *([verb, "--help"] for verb in ("train", "demo", "check", "missing"))])
def test_help_loads_no_torch(words):
    program = (
        "import sys; from positively.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "assert not {'torch', 'numpy', 'timm'} & set(sys.modules), 'help loads heavy packages'"
    )
    subprocess.run([sys.executable, "-c", program, *words], check=True, stdout=subprocess.DEVNULL)


def test_importing_the_package_loads_no_torch():
    program = "import sys, positively; assert 'torch' not in sys.modules; assert positively.losses.pu_mlc"
    subprocess.run([sys.executable, "-c", program], check=True)


# Words a newcomer could not guess or search for, and names that were replaced.
RETIRED_WORDS = {"aside", "workshop", "speak", "say", "telling", "kept", "facts", "door", "usual", "redraw"}
RETIRED_WORDS |= {"learner", "resting", "observe", "exceptions", "labelled"}
RETIRED_NAMES = {
    "Draw",
    "keeps",
    "Images",
    "Features",
    "load",
    "prepare",
    "BatchOrder",
    "InOrder",
    "frozen_statistics",
    "step",
}


def words_of(name):
    return set(re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower().split("_"))


def names_in(tree):
    for node in ast.walk(tree):
        for attribute in ("id", "name", "attr", "arg", "asname"):
            if isinstance(getattr(node, attribute, None), str):
                yield getattr(node, attribute)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_names_are_words_that_can_be_searched_for(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert {name for name in names_in(tree) if words_of(name) & RETIRED_WORDS} == set()
    made = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert made & (RETIRED_NAMES - ({"step"} if path.name == "progress.py" else set())) == set()
