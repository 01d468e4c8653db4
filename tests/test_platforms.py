"""What works on Linux works on macOS and Windows: the parts that need torch (the others are in core)."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import positively as po
from conftest import TINY, options
from positively.config import TrainConfig
from positively.finetune.methods import METHODS, register_method
from positively.finetune.sharing import processes_at
from positively.research.bench.grid import Bench, Job
from positively.research.bench.results import Cell


def test_a_method_of_any_name_has_a_run_folder(scenes, tmp_path, monkeypatch):
    @register_method("own: pu?")
    class Own(METHODS["pu-mlc"]):
        pass

    monkeypatch.chdir(tmp_path)
    try:
        settings = TINY | {"method": "own: pu?", "epochs": 1}
        assert po.fit(po.read(scenes / "train.csv", quiet=True), quiet=True, **settings).path.name == "own- pu-"
    finally:
        METHODS._entries.pop("own: pu?")


def test_a_benchmark_of_any_name_has_result_files():
    bench = object.__new__(Bench)
    bench.out, bench._digests = Path("out"), {"my: set": "0123"}
    config = TrainConfig(method="pu-mlc", depth="probe")
    job = Job(Cell("my: set", "PU-MLC", "probe", 0.1, 0.0, 0), config, config, (("default", 1e-3),))
    assert bench._path(job).name.startswith("my- set-probe-pu-mlc-known10-seed0-")


def test_a_mark_that_a_scanner_holds_stops_nobody(tmp_path, monkeypatch):
    def held(self, missing_ok=False):
        raise PermissionError(errno.EACCES, "held by a scanner", str(self))

    monkeypatch.setattr(Path, "unlink", held)
    assert processes_at(tmp_path) == [0]


SITE = """
import multiprocessing
with open({starts!r}, "a") as file:
    file.write("started ")
multiprocessing.set_start_method("spawn", force=True)
"""


def test_training_has_workers_where_nothing_forks(scenes, environment, tmp_path):
    """macOS and Windows start workers anew: all they get is pickled, and the program's main module is imported."""
    starts = tmp_path / "starts"
    (tmp_path / "sitecustomize.py").write_text(SITE.format(starts=str(starts)))
    words = options(TINY | {"epochs": 1, "holdout": 0, "workers": 1, "out": tmp_path / "run"})
    command = [sys.executable, "-m", "positively", "train", str(scenes / "train.csv"), *words]
    path = os.pathsep.join([str(tmp_path), environment.get("PYTHONPATH", "")])
    done = subprocess.run(command, env=environment | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert len(starts.read_text().split()) > 1, "no worker was started anew"
