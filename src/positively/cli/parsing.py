"""Option parsing shared by the verbs: dataclasses become grouped options, errors become sentences."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from jsonargparse import ArgumentParser, Namespace, set_parsing_settings

from positively.errors import ConfigError

if TYPE_CHECKING:
    from positively.config import TrainConfig
    from positively.research.recipes import Recipe
    from positively.tables.options import ReadOptions

set_parsing_settings(docstring_parse_attribute_docstrings=True)

T = TypeVar("T")
_KINDS = {"int": "a whole number", "float": "a number", "str": "text", "bool": "true or false"}
_OPTION = re.compile(r"--[a-z][a-z0-9_]*")


class Parser(ArgumentParser):
    """Parser of one verb. Options are written with dashes; underscores, as in YAML, are taken too."""

    def __init__(self, verb: str, positional: str, description: str) -> None:
        usage = f"positively {verb} {positional} [options]"
        super().__init__(prog=f"positively {verb}", usage=usage, description=description, allow_abbrev=False)
        self._switches: set[str] = set()

    def add_group(self, group: type, without: Collection[str] = (), only: Collection[str] | None = None) -> None:
        """Add the fields of a dataclass as options, under its docstring: all but some, or some only."""
        names = {field.name for field in fields(group)}
        chosen = (names if only is None else set(only)) - set(without)
        self.add_class_arguments(group, skip=(names - chosen) | _NOT_SHOWN)
        if "embeddings" in chosen:
            self.add_embeddings("files with embeddings of the images, in place of a backbone")
        self._switches |= {field.name for field in fields(group) if field.type in (bool, "bool", "bool | None")}

    def add_switch(self, name: str, help: str) -> None:
        """Add an option that is on when it is named."""
        self.add_argument(f"--{name}", type=bool, default=False, help=help)
        self._switches.add(name)

    def parse(self, arguments: list[str]) -> Namespace:
        """Parse the words after the verb."""
        return self.parse_args(self._all_normal(arguments))

    def add_plugin(self) -> None:
        """Add the option that loads a file of the user's own."""
        text = "Python file that registers methods, losses, heads, embedders or table formats of your own"
        self.add_argument("--plugin", type=str | None, default=None, help=text)

    def add_embeddings(self, text: str = "files with embeddings, for a run that was trained on such") -> None:
        """Add the option that takes embeddings from files."""
        forms = ".npy, .npz, .parquet or .safetensors; `positively embed` writes them"
        self.add_argument("--embeddings", nargs="+", type=str, default=None, help=f"{text}: {forms}")

    def add_run_use(self) -> None:
        """Options of every verb that uses a run: which head, and how sure it has to be."""
        self.add_argument(
            "--min_precision",
            type=float | None,
            default=None,
            help="give only tags of which this share is expected to be right, such as 0.8; default: the run's own "
            "thresholds",
        )
        self.add_argument(
            "--head", type=str | None, default=None, help="'linear': the plain head that was solved beside the kernel's"
        )

    def add_recipe(self) -> None:
        """Add the option that takes a recipe of the paper as defaults."""
        self.add_argument("--recipe", type=str | None, default=None, help="a published experiment: its name, or a file")

    def parse_recipe(self, arguments: list[str]) -> tuple[Namespace, Recipe | None]:
        """As :meth:`parse`; the options of a recipe that is named stand in for the defaults."""
        from positively.research.recipes import read_recipe

        words = self._all_normal(arguments)
        named = [following for word, following in pairwise([*words, ""]) if word == "--recipe"]
        named += [word.partition("=")[2] for word in words if word.startswith("--recipe=")]
        if not named:
            return self.parse_args(words), None
        recipe = read_recipe(named[-1])
        known = {action.dest for action in self._actions}
        # As if they had been typed first: checked like any word, and what is typed wins.
        typed = [f"--{name}={value}" for name, value in recipe.words().items() if name.partition(".")[0] in known]
        return self.parse_args([*typed, *words]), recipe

    def _all_normal(self, arguments: list[str]) -> list[str]:
        return [self._normal(word, arguments[i + 1 : i + 2]) for i, word in enumerate(arguments)]

    def _normal(self, word: str, following: list[str]) -> str:
        """``--skip-broken`` → ``--skip_broken=true``, ``--min-count=3`` → ``--min_count=3``."""
        if not word.startswith("--"):
            return word
        name, equals, value = word[2:].partition("=")
        name = name.replace("-", "_")
        is_bare = not equals and not (following and following[0] in ("true", "false", "null"))
        return f"--{name}=true" if is_bare and name in self._switches else f"--{name}{equals}{value}"

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Raise the parser's complaint as a sentence."""
        unknown = re.search(r"nrecognized arguments: (--[^\s=]+)", message)
        if unknown:
            known = [action.option_strings[-1] for action in self._actions if action.option_strings]
            near = difflib.get_close_matches(unknown[1], known, n=1)
            hint = f" Did you mean {_dashed(near[0])}?" if near else ""
            raise ConfigError(f"{self.prog} has no option {_dashed(unknown[1])}.{hint} See {self.prog} --help.")
        wrong = re.search(r'Parser key "(\w+)".*?(?:Given|Got) value: (.*)', message, re.DOTALL)
        if wrong:
            literal = re.search(r"Literal\[(.*?)\]", message)
            kinds = [kind for kind in re.findall(r"Expected a <class '(\w+)'>", message) if kind != "NoneType"]
            expected = f"one of {literal[1]}" if literal else " or ".join(_KINDS.get(kind, kind) for kind in kinds)
            option = _dashed(f"--{wrong[1]}")
            raise ConfigError(
                f"{option} takes {expected or 'another value'}, not {wrong[2].strip()!r}. See {self.prog} --help."
            )
        told = re.sub(r"\s+", " ", message).strip().rstrip(".")
        raise ConfigError(f"{self.prog}: {told}. See {self.prog} --help.")

    def format_help(self, *arguments: Any, **options: Any) -> str:
        """Help with the options as people type them."""
        text: str = super().format_help(*arguments, **options)
        return _OPTION.sub(lambda match: _dashed(match.group()), text)


# "embeddings" has an option of its own, for jsonargparse would ask for a list in brackets; the other follows from it.
_NOT_SHOWN = {"embeddings", "find_images"}


def _dashed(option: str) -> str:
    return option.replace("_", "-")


def check_config(config: TrainConfig) -> None:
    """Refuse options that cannot work and names nobody knows: without torch, unless a network is to learn."""
    from positively.probe.configured import check_probe_config, is_probe
    from positively.registry import TORCH

    check_probe_config(config)
    if not is_probe(config):
        TORCH["check"](config)


def make_config(kind: type[T], values: Namespace) -> T:
    """Fields of a dataclass from parsed options; those the verb does not offer keep their defaults."""
    assert is_dataclass(kind)
    chosen: dict[str, Any] = {field.name: values[field.name] for field in fields(kind) if field.name in values}
    return kind(**chosen)


def read_options(values: Namespace) -> ReadOptions:
    """How a table is read; its images are not looked for where embeddings take their place."""
    from positively.tables.options import ReadOptions

    chosen = make_config(ReadOptions, values)
    return replace(chosen, find_images=False) if values.get("embeddings") else chosen
