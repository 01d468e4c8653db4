"""What the documents list is what there is."""

import re
from pathlib import Path

import pytest
import yaml

from benchmarks.document import facts, inserted
from benchmarks.study.archive import unpack
from benchmarks.study.parts import PARTS
from benchmarks.study.report import document_text
from positively.finetune.methods import METHODS
from positively.research.bench.suite import Row, Suite, read_suite

DOCS = Path(__file__).parents[1] / "docs"


def test_every_method_has_its_paragraph_and_the_table_of_facts_is_the_registrys():
    text = (DOCS / "research" / "methods.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^### (\S+)$", text, flags=re.M)) == sorted(METHODS)
    assert inserted(text, "facts", facts()) == text, "run: python -m benchmarks.document docs/research/methods.md facts"


def test_a_mark_that_is_not_there_is_said():
    assert inserted("a\n<!-- x -->\nold\n<!-- /x -->\nb", "x", "new\n") == "a\n<!-- x -->\nnew\n<!-- /x -->\nb"
    with pytest.raises(SystemExit, match="no <!-- y -->"):
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
