"""Every benchmark starts."""

from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_benchmark_can_be_imported():
    folder = ROOT / "benchmarks"
    paths = [path.relative_to(ROOT) for part in (folder, folder / "study") for path in part.glob("[a-z]*.py")]
    assert len(paths) > 20 and all(import_module(".".join(path.with_suffix("").parts)) for path in paths)
