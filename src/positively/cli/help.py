"""Help of a verb in two tiers: the options that most people use, and all of them."""

from __future__ import annotations

import re
import shutil
import textwrap
from typing import Annotated, Any, Literal, get_args, get_origin

from positively.cli.parsing import Option, Parser
from positively.options import alternatives, helps_of

_COLUMN = 27


def format_help(parser: Parser, everything: bool = False) -> str:
    """Help of a verb: usage, examples, and its common options, or all of them in groups."""
    width = max(min(shutil.get_terminal_size((80, 24)).columns, 100), 60)
    lines = [
        f"usage: {' '.join([parser.prog, parser.usage, '[options]'])}".replace("  ", " "),
        "",
        *textwrap.wrap(parser.description, width, break_on_hyphens=False),
        "",
    ]
    lines += [f"  {example}" for example in parser.examples] + [""] * bool(parser.examples)
    for place in parser.places:
        lines += _row(f"  {place.name.upper()}", place.help, width)
    lines += [""] * bool(parser.places)
    for title, options in _sections(parser, everything).items():
        lines += [f"{title}:"]
        for option in options:
            text = _text(option)
            lines += _row(f"  {_left(option)}", text if everything else _first_sentence(text), width)
        lines.append("")
    rest = (
        ""
        if everything or not parser.common or len(parser.common) == len(parser.options)
        else "--help-all shows every option; "
    )
    lines += textwrap.wrap(f"{rest}--verbose prints details; --debug shows the traceback of an error.", width)
    return "\n".join(lines)


def metavar(option: Option) -> str:
    """The words for what an option takes: NUMBER, FILE, {a,b}."""
    if option.takes(bool):
        return ""
    if option.takes(list):
        (kind,) = (get_args(part)[0] for part in alternatives(option.kind) if get_origin(part) is list)
        return f"{_words(kind)[0]} ..."
    choices = [choice for part in alternatives(option.kind) if get_origin(part) is Literal for choice in get_args(part)]
    others = [word for part in alternatives(option.kind) for word in _words(part)]
    return "|".join([*others, *(choices if others or len(choices) == 1 else [f"{{{','.join(choices)}}}"])])


def _sections(parser: Parser, everything: bool) -> dict[str, list[Option]]:
    """Title → options."""
    if not everything and parser.common:
        return {"Options": [parser.options[name] for name in parser.common]}
    sections: dict[str, list[Option]] = {}
    for option in parser.options.values():
        title = "Options" if option.group is None else (option.group.__doc__ or "").splitlines()[0].rstrip(".")
        sections.setdefault(title, []).append(option)
    return sections


def _left(option: Option) -> str:
    if option.takes(dict):
        return f"{option.flag}.NAME VALUE"
    if option.takes(bool):
        off = f"--no-{option.flag[2:]}"
        return off if option.default is True else option.flag if option.default is False else f"{option.flag}, {off}"
    return f"{option.flag} {metavar(option)}"


def _text(option: Option) -> str:
    """Help of an option, with its default in the first sentence."""
    text = option.help or helps_of(option.group or object)[option.name]
    if option.takes(bool):
        return f"Do not {text[0].lower()}{text[1:]}" if option.default is True else text
    is_told = re.search(r"\bdefault\b", text, re.IGNORECASE) or option.default in (None, [], {})
    first = _first_sentence(text)
    return text if is_told else f"{first.rstrip('.')}; default: {option.default}.{text[len(first) :]}"


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.) (?=[A-Z'`])", text, maxsplit=1)[0]


def _row(left: str, text: str, width: int) -> list[str]:
    """Two columns; a long left one has a line of its own."""
    wrapped = textwrap.wrap(text, width - _COLUMN - 2, break_on_hyphens=False) or [""]
    first = [f"{left:<{_COLUMN}}  {wrapped.pop(0)}"] if len(left) <= _COLUMN else [left]
    return [line.rstrip() for line in first] + [" " * (_COLUMN + 2) + line for line in wrapped]


def _words(kind: Any) -> list[str]:
    """The word for one annotation, if it has one."""
    if get_origin(kind) is Annotated:
        plain, *more = get_args(kind)
        return [word for word in more if isinstance(word, str)] or _words(plain)
    return {int: ["NUMBER"], float: ["NUMBER"], str: ["TEXT"]}.get(kind, [])
