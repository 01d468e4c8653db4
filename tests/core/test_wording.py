"""Wording is free: no test pins a sentence of a message."""

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_no_test_matches_an_error_by_its_sentence():
    pinned = []
    for path in TESTS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "match" and isinstance(node.value, ast.Constant):
                text = str(node.value.value)
                if len(text.split()) > 4:
                    pinned.append(f"{path.name}:{node.value.lineno}: {text}")
    assert not pinned, "match on a name, a number or a key noun; see wording.naming"
