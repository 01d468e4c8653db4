"""What is installed from a wheel has everything that the source tree has."""

import inspect
import pydoc
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

import positively
from conftest import HAS_TORCH
from positively.errors import ConfigError

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


def test_the_package_can_be_explored_with_or_without_torch():
    assert "PUClassifier" in dict(inspect.getmembers(positively))
    assert "PUClassifier" in pydoc.render_doc(positively)
    names = {}
    exec("from positively import *", names)
    assert ("losses" in names) == hasattr(positively, "losses") == HAS_TORCH


@pytest.mark.skipif(HAS_TORCH, reason="torch is installed here")
@pytest.mark.parametrize("name", ["losses", "models", "register_loss"])
def test_a_name_that_needs_torch_is_a_missing_attribute(name):
    assert not hasattr(positively, name)
    with pytest.raises(ConfigError, match=r"positively\[torch\]"):
        getattr(positively, name)
