"""Checks of messages by the facts they name, not by their sentences."""

import re


def naming(*facts: object) -> str:
    """A pattern for ``pytest.raises(match=…)``: a message that names all of these, in any order."""
    return "(?s)" + "".join(f"(?=.*{re.escape(str(fact))})" for fact in facts)


def assert_names(text: str, *facts: object) -> None:
    """The text names all of these, in any order."""
    lacking = [str(fact) for fact in facts if str(fact) not in text]
    assert not lacking, f"{lacking} not in:\n{text}"
