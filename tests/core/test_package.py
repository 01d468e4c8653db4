"""What is installed from a wheel has everything that the source tree has."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import positively

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "positively"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_file_of_the_package_goes_into_its_wheel():
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["positively"]
    files = [path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*") if path.is_file()]
    data = [name for name in files if not name.endswith((".py", ".pyc"))]
    assert len(data) > 30 and [name for name in data if not any(fnmatch(name, one) for one in patterns)] == []
    assert [
        name for name in files if name.endswith(".py") and not (PACKAGE / name).with_name("__init__.py").exists()
    ] == []


def test_one_version_stands_everywhere():
    assert PROJECT["project"]["dynamic"] == ["version"] and "version" not in PROJECT["project"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "positively.__version__"}
    assert "\nversion:" not in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.fullmatch(r"\d+\.\d+\.\d+", positively.__version__)
