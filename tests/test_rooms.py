"""The house keeps its order: rooms import only from rooms above them, files stay small, help is quick."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "positively"
# From the top of the house to the bottom. A room may import from itself and from those before it.
ROOMS = [
    "errors",
    "logs",
    "options",
    "registry",
    "distributed",
    "randomness",
    "files",
    "labels",
    "metrics",
    "calibration",
    "data",
    "models",
    "features",
    "probe",
    "losses",
    "methods",
    "runs",
    "training",
    "recipes",
    "predict",
    "export",
    "missing",
    "report",
    "app",
    "api",
    "demo",
    "bench",
    "cli",
    "__main__",
]
FILES = sorted(PACKAGE.rglob("*.py"))


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(path):
    """Rooms a file imports while it runs; imports for type checkers alone do not count."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = []
    for node in ast.walk(tree):
        names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            if name.startswith("positively."):
                yield name.split(".")[1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_from_rooms_above(path):
    if path.name == "__init__.py" and path.parent == PACKAGE:
        return  # the front door leads everywhere, and only when a name is used
    room = room_of(path)
    assert room in ROOMS, f"{room} has no place in the house yet"
    allowed = ROOMS[: ROOMS.index(room) + 1]
    assert set(imported_rooms(path)) <= set(allowed)


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
