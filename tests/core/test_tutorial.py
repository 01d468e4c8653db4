"""The tutorial notebook runs from top to bottom."""

import json
from pathlib import Path

NOTEBOOK = Path(__file__).parents[2] / "docs" / "tutorial.ipynb"


def test_the_code_of_the_tutorial_runs(place, tmp_path, monkeypatch):
    for name, value in {"PHOTOS": "120", "BACKBONE": str(place / "colors.onnx")}.items():
        monkeypatch.setenv(f"TUTORIAL_{name}", value)
    monkeypatch.setenv("POSITIVELY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("MPLBACKEND", "agg")
    from matplotlib import pyplot

    names: dict[str, object] = {}
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    pyplot.close("all")
    assert names["scores"].shape == (len(names["table"].classes),)


def test_the_stored_plots_are_those_of_a_complete_run():
    cells = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert sum("image/png" in part.get("data", {}) for cell in cells for part in cell["outputs"]) >= 7
    assert not any(part["output_type"] == "error" for cell in cells for part in cell["outputs"])
