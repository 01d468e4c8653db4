"""Files stay small. Which room imports which: import-linter, in pyproject.toml."""

import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "positively"


def test_files_stay_small():
    paths = [path for ending in ("py", "css", "js", "html") for path in PACKAGE.rglob(f"*.{ending}")]
    lengths = {str(path.relative_to(PACKAGE)): len(path.read_text().splitlines()) for path in paths}
    assert not {name: length for name, length in lengths.items() if length > 400}
    assert sorted(lengths.values())[len(lengths) // 2] < 150


def test_importing_the_package_loads_no_torch():
    program = "import sys, positively; assert 'torch' not in sys.modules; assert positively.losses.pu_mlc"
    subprocess.run([sys.executable, "-c", program], check=True)
