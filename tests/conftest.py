"""Shared by the tests: small scenes on disk, and the command line in a process of its own."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest

import shapes
from positively.research.scenes import write_scenes

HAS_TORCH = find_spec("torch") is not None
TINY = {
    "method": "pu-mlc",
    "backbone": "test_resnet",
    "weights": "none",
    "image_size": 32,
    "depth": "finetune",
    "augment": "none",
    "epochs": 2,
    "batch_size": 8,
}


@pytest.fixture(scope="session")
def scenes(tmp_path_factory):
    """A folder with 32 training and 24 test scenes, and their complete labels as train.csv and test.csv."""
    folder = tmp_path_factory.mktemp("scenes")
    write_scenes(folder, "train", 32)
    write_scenes(folder, "test", 24)
    return folder


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A folder with backbones that are worth something: colors.onnx; with torch, tiny.safetensors too."""
    folder = tmp_path_factory.mktemp("shapes")
    shapes.write_backbone(folder / "colors.onnx")
    if HAS_TORCH:
        shapes.write_weights(folder)
    return folder


@pytest.fixture(scope="session")
def tables(place):
    """Complete labels of 200 training and 100 test pictures of coloured squares."""
    return shapes.write_shapes(place, "train", 200, seed=0), shapes.write_shapes(place, "test", 100, seed=1)


@pytest.fixture(scope="session")
def fabric():
    """The engine, on one CPU process."""
    from lightning_fabric import Fabric

    return Fabric(accelerator="cpu", devices=1)


@pytest.fixture(scope="module")
def bare_runs():
    """Trainings in this process write no report.html and no model.onnx, which take longer than a tiny network does."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("positively.api", "positively.report.finished"):
            patch.setattr(f"{module}.report_training", lambda *given: None)
        patch.setattr("positively.finetune.run._write_network", lambda *given: None)
        yield


@pytest.fixture(scope="module")
def browser():
    """A real browser. Not of the session: while it is open an event loop runs, and nothing else may start one."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright ([dev])")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium: as root on Debian, make test installs it; else apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """Environment of a child process: one thread, its own cache, no network."""
    cache = tmp_path_factory.mktemp("cache")
    return os.environ | {"OMP_NUM_THREADS": "1", "POSITIVELY_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}


@pytest.fixture
def positively(environment):
    """The command line: ``positively("train", "tags.csv")`` runs it and returns the finished process."""

    def run(*words, check=True, **options):
        done = subprocess.run(
            [sys.executable, "-m", "positively", *map(str, words)],
            capture_output=True,
            text=True,
            timeout=300,
            env=environment,
            **options,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    return run


def options(settings):
    """Words of the command line for a dictionary of options."""
    return [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
