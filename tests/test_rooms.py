"""Files stay small and help is quick. Which room imports which: import-linter, in pyproject.toml."""

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
