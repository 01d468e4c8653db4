"""Commands and code of the documents work as they are printed, and what the documents list is what there is."""

import re
import shlex
import shutil
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

import positively as po
import shapes
from benchmarks.document import GENERATED, inserted
from benchmarks.study.archive import unpack
from benchmarks.study.parts import PARTS
from benchmarks.study.report import document_text
from positively.finetune.methods import METHODS
from positively.research.bench.suite import Row, Suite, read_suite

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(r"(?:<!-- test: (?P<marker>.*?) -->\n)?^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.M | re.S)
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M))


def blocks(page, *languages):
    found = BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [(match["marker"] or "", match["code"]) for match in found if match["language"] in languages]


def commands(page):
    """Lines that are typed: those after ``$``, or all of a block without it."""
    lines = []
    for _, code in blocks(page, "sh", "console"):
        joined = code.replace("\\\n", " ").splitlines()
        typed = [line[2:] for line in joined if line.startswith("$ ")] or joined
        for line in typed:
            parts = re.split(r"\||&&|; |^for .*|^done", re.sub(r"(^|\s)#.*", "", line))
            lines += [re.sub(r"\[.*?\]", "", re.sub(r"\$\w+|\bRATIO\b", "1", part)).strip() for part in parts]
    return [line for line in lines if line]


COMMANDS = [(page.relative_to(ROOT).as_posix(), command) for page in PAGES for command in commands(page)]
CODE = [page for page in PAGES if any("skip" not in marker for marker, _ in blocks(page, "python"))]


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_every_command_is_understood(page, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "tags.positively" / "runs" / "auto" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(yaml.safe_dump({"seed": 1}))
    program, *words = shlex.split(command)
    if "positively" in words and program == "torchrun":
        program, *words = words[words.index("positively") :]
    if program == "positively":
        import_module(f"positively.cli.{words[0]}").parser().parse(words[1:])
    elif program == "make":
        assert set(words) <= TARGETS
    elif program == "python":
        assert words[0] == "-m" and find_spec(words[1])
    else:
        assert Path(program).name in ("pip", "find", "pre-commit", "pytest")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A photo library: photos, a table with half of their tags, and a test table with all of them."""
    folder = tmp_path_factory.mktemp("library")
    for part, count, share in (("tags", 60, 0.5), ("test", 30, 1.0)):
        table = shapes.write_shapes(folder, part, count, seed=count)
        known = (table.states() == 1) & (np.random.default_rng(0).random(table.states().shape) < share)
        lines = [
            f"{name},{';'.join(np.array(table.classes)[row])}" for name, row in zip(table.images, known, strict=True)
        ]
        (folder / f"{part}.csv").write_text("\n".join(["image,tags", *lines]) + "\n")
    (folder / "photos").mkdir()
    for part in ("tags", "test"):
        shutil.move(folder / part, folder / "photos" / part)
    for name in ("a.jpg", "b.jpg", "photo.jpg"):
        Image.new("RGB", (64, 48), "teal").save(folder / name)
    return folder


def arrays():
    """Names that the examples use without defining them."""
    import timm
    import torch

    generator = np.random.default_rng(0)
    truth = generator.random((200, 3)) < 0.3
    states = (truth & (generator.random(truth.shape) < 0.6)).astype(np.int8)
    X = np.hstack([truth + generator.normal(size=truth.shape) / 2, generator.normal(size=(200, 5))])
    scores = 1 / (1 + np.exp(-generator.normal(4.0 * truth - 2.0)))
    given = {
        "X": X,
        "X_new": X[:10],
        "Y": states,
        "states": states,
        "scores": scores,
        "truth": 2 * truth.astype(np.int8) - 1,
    }
    return {"po": po, "np": np, "timm": timm, "torch": torch} | given


@pytest.mark.parametrize("page", CODE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_python_block_runs(page, library, environment, tmp_path, monkeypatch):
    if "register_" in page.read_text(encoding="utf-8"):
        pytest.skip("its files are plugins: tests/test_plugins.py and tests/core/test_table_formats.py load them")
    monkeypatch.setenv("POSITIVELY_CACHE", environment["POSITIVELY_CACHE"])
    folder = shutil.copytree(library, tmp_path / "library")
    monkeypatch.chdir(folder)
    names = arrays()
    for marker, code in blocks(page, "python"):
        if "model.onnx" in marker:
            run = po.fit(po.read("tags.csv", images="photos/"), quiet=True)
            shutil.copy(run.path / "model.onnx", folder)
        if "torch" in marker:
            names |= {"states": names["torch"].from_numpy(names["Y"]), "logits": names["torch"].randn(200, 3)}
        if "skip" not in marker:
            exec(compile(code, str(page), "exec"), names)


def test_the_reference_lists_every_public_name():
    text = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    rooms = {"losses", "metrics", "models", "probe"}
    assert set(po.__all__) - rooms <= set(re.findall(r"heading: po\.(\w+)", text))


def test_every_method_has_its_paragraph_and_the_generated_tables_are_up_to_date():
    text = (DOCS / "research" / "methods.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^### (\S+)$", text, flags=re.M)) == sorted(METHODS)
    for name, table in GENERATED.items():
        same = inserted(text, name, table()) == text
        assert same, f"run: python -m benchmarks.document docs/research/methods.md {name}"


def test_a_mark_that_is_not_there_is_said():
    assert inserted("a\n<!-- x -->\nold\n<!-- /x -->\nb", "x", "new\n") == "a\n<!-- x -->\nnew\n<!-- /x -->\nb"
    with pytest.raises(SystemExit, match="<!-- y -->"):
        inserted("a", "y", "")


def test_tables_of_the_study_are_those_of_its_results(tmp_path):
    text = (DOCS / "research" / "study.md").read_text(encoding="utf-8")
    unpack(DOCS / "research" / "study.jsonl", tmp_path)
    for part in PARTS:
        if f"<!-- {part} -->" in text:
            options = "--report --archive docs/research/study.jsonl --document docs/research/study.md"
            same = inserted(text, part, document_text(part, tmp_path)) == text
            assert same, f"run: python -m benchmarks.study {part} … {options}"
    assert "<!-- ablation -->" in text


def test_the_keys_of_a_suite_are_documented_and_the_example_is_one(tmp_path):
    text = (DOCS / "development" / "extending.md").read_text(encoding="utf-8")
    section = text.partition("## A benchmark suite")[2]
    keys = {name for name in (*Suite.__dataclass_fields__, *Row.__dataclass_fields__) if name != "name"}
    assert {key for key in keys if f"`{key}`" not in section} == set()
    example = re.search(r"```yaml\n(.*?)```", section, flags=re.S).group(1)
    (tmp_path / "mine.yaml").write_text(example, encoding="utf-8")
    suite = read_suite(str(tmp_path / "mine.yaml"))
    assert len(suite.rows) == len(yaml.safe_load(example)["rows"])


def test_every_file_and_function_that_the_architecture_names_is_there():
    text = (DOCS / "development" / "architecture.md").read_text(encoding="utf-8")
    source = DOCS.parent / "src" / "positively"
    code = {path.relative_to(source).as_posix(): path.read_text(encoding="utf-8") for path in source.rglob("*.py")}

    def found(name):
        return [content for path, content in code.items() if f"/{path}".endswith(f"/{name}")]

    files = set(re.findall(r"`([\w/]+\.py)`", text))
    assert len(files) > 50 and {name for name in files if not found(name)} == set()
    pairs = {
        (name, thing)
        for name, things in re.findall(r"`([\w/]+\.py)`((?: `\w+`,?)+)", text)
        for thing in re.findall(r"`(\w+)`", things)
    }
    defined = r"^(?:(?:def|class) {0}\b|{0}\b.* =)"
    lost = {pair for pair in pairs if not any(re.search(defined.format(pair[1]), one, re.M) for one in found(pair[0]))}
    assert len(pairs) > 30 and lost == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_path_of_the_project_is_there(page):
    named = re.findall(r"`((?:src|tests|docs|benchmarks)/[\w./-]+)`", page.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []
