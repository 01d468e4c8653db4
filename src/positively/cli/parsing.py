"""Options of the verbs: dataclasses become grouped options, words become checked values, errors become sentences."""

from __future__ import annotations

import difflib
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from importlib import import_module
from pathlib import Path
from types import NoneType, SimpleNamespace
from typing import Any, TypeVar, get_args, get_origin

from positively.config import RENAMED, TrainConfig, current_options
from positively.errors import ConfigError, quoted
from positively.logs import logger
from positively.options import (
    File,
    Name,
    Share,
    alternatives,
    check_value,
    default_of,
    kinds_of,
    read_value,
)
from positively.tables.options import CHOSEN_BY_VERBS, ReadOptions
from positively.workspace import is_run

T = TypeVar("T")
Values = SimpleNamespace
"""Values of all options of a verb by their names."""


@dataclass(frozen=True)
class Option:
    """One option of a verb. Its kind is an annotation, as in a dataclass of options."""

    name: str
    kind: Any
    default: Any = None
    help: str = ""
    group: type | None = None
    """The dataclass it comes from, which has the help if there is none here."""

    @property
    def flag(self) -> str:
        """The option as people type it."""
        return f"--{self.name.replace('_', '-')}"

    def takes(self, kind: type) -> bool:
        """Whether this is a switch (``bool``), or takes several values (``list``) or pairs (``dict``)."""
        return any((get_origin(part) or part) is kind for part in alternatives(self.kind))

    def read(self, texts: Sequence[str]) -> Any:
        """The value from the words that follow the option."""
        if self.takes(list) and list(texts) != ["null"]:
            (kind,) = (get_args(part)[0] for part in alternatives(self.kind) if get_origin(part) is list)
            return [read_value(self.flag, text, kind) for text in texts]
        return read_value(self.flag, texts[0], self.kind)


@dataclass(frozen=True)
class Place:
    """A word without a dash: the table, the run."""

    name: str
    help: str
    required: bool = True
    many: bool = False


class Parser:
    """Options of one verb.

    A word such as ``--skip-broken``, ``--min_count=3``, ``--method-options.gamma 0.5`` or an old spelling has to be
    rewritten before :mod:`argparse` would understand it, so nothing would be left for argparse to do.
    """

    def __init__(
        self, verb: str, usage: str, description: str, examples: Sequence[str] = (), common: Sequence[str] = ()
    ) -> None:
        """Start with the words that every verb takes.

        Args:
            verb: Name of the verb.
            usage: The words after the verb, such as ``TABLE``.
            description: One or two sentences.
            examples: Commands to show first.
            common: Names of the options that ``--help`` shows, in this order; ``--help-all`` shows the rest too.
        """
        self.prog, self.usage, self.description = f"positively {verb}", usage, description
        self.examples, self.common = examples, common
        self.places: list[Place] = []
        self.options: dict[str, Option] = {}
        self.in_file: dict[str, Option] = {}
        """Options that belong in a configuration file; as words they work for one release."""

    def add_place(self, name: str, help: str, required: bool = True, many: bool = False) -> None:
        """Add a word without a dash."""
        self.places.append(Place(name, help, required, many))

    def add(self, name: str, kind: Any, default: Any, help: str) -> None:
        """Add one option; without a default, and no None among its values, it is required."""
        self.options[name] = Option(name, kind, default, help)

    def add_switch(self, name: str, help: str) -> None:
        """Add an option that is on when it is named."""
        self.add(name, bool, False, help)

    def add_group(self, group: type, without: Collection[str] = (), only: Collection[str] | None = None) -> None:
        """Add the fields of a dataclass as options, all but some, or some only."""
        for name, option in _options_of(group).items():
            if (only is None or name in only) and name not in without:
                self.options[name] = option

    def add_config(self, group: type = TrainConfig) -> None:
        """Add ``--config FILE``; the file may also hold the fields of a dataclass that are no options here."""
        self.add("config", File | None, None, "YAML file with options; words on the command line win.")
        self.in_file = {name: option for name, option in _options_of(group).items() if name not in self.options}

    def add_plugin(self) -> None:
        """Add the option that loads a file of the user's own."""
        text = "Python file that registers your own methods, losses, heads, embedders or table formats."
        self.add("plugin", File | None, None, text)

    def add_embeddings(self, text: str = "Files with embeddings, for a run that was trained on embeddings.") -> None:
        """Add the option that takes embeddings from files."""
        self.add("embeddings", list[File] | None, None, f"{text} See `positively embed`.")

    def add_run_use(self) -> None:
        """Add the options of every verb that uses a run: the head, and the precision of the tags."""
        text = "Choose thresholds at which this share of the tags is expected to be right, such as 0.8."
        self.add("min_precision", Share | None, None, f"{text} Default: the thresholds of the run.")
        self.add("head", Name | None, None, "'linear': the linear head that is stored with the kernel head.")

    def add_recipe(self) -> None:
        """Add the option that takes a recipe of the paper as defaults."""
        self.add("recipe", Name | None, None, "A published experiment as defaults: its name, or a YAML file.")

    def defaults(self) -> dict[str, Any]:
        """Name → default of every option."""
        return {name: option.default for name, option in self._all().items()}

    def parse(self, words: Sequence[str]) -> Values:
        """Read the words after the verb. They win over ``--config``, which wins over ``--recipe`` and the defaults.

        Raises:
            SystemExit: Help was asked for, and printed.
            ConfigError: An option does not exist, or does not take its value.
        """
        if {"-h", "--help", "--help-all"} & set(words):
            from positively.cli.help import format_help

            print(format_help(self, everything="--help-all" in words))
            raise SystemExit(0)
        places, typed = self._read_words(words)
        stored = _read_config(typed["config"]) if typed.get("config") else {}
        layers = [self._check_stored(stored, typed.get("config", "")), typed]
        named = typed.get("recipe") or layers[0].get("recipe")
        if named:
            from positively.research.recipes import read_recipe

            recipe = read_recipe(named).train
            known = {name: value for name, value in recipe.items() if name in self.options}
            layers.insert(0, self._check_stored(known, f"recipe {named}"))
        values = self.defaults()
        for name, value in (item for layer in layers for item in layer.items()):
            values[name] = {**(values[name] or {}), **value} if isinstance(value, dict) else value
        for name, option in self.options.items():
            if values[name] is None and NoneType not in alternatives(option.kind):
                raise ConfigError(f"{self.prog} needs {option.flag}. See {self.prog} --help.")
        return Values(**values, **self._fill_places(places, stored))

    def _all(self) -> dict[str, Option]:
        return self.in_file | self.options

    def _read_words(self, words: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
        """Words without a dash in order; and name → value of the options."""
        places: list[str] = []
        typed: dict[str, Any] = {}
        waiting = deque(words)
        while waiting:
            word = waiting.popleft()
            if word == "--":  # what follows is no option, even if it begins with a dash
                places += waiting
                break
            if not word.startswith("-") or word == "-":
                places.append(word)
                continue
            flag, equals, text = word.partition("=")
            option, key, is_off = self._find(flag)
            if is_off:
                if equals:
                    raise ConfigError(f"{flag} takes no value. See {self.prog} --help.")
                texts = ["false"]
            elif equals:
                texts = [text]
            elif option.takes(bool):
                texts = [waiting.popleft()] if waiting and waiting[0] in ("true", "false", "null") else ["true"]
            else:
                texts = []
                while waiting and not waiting[0].startswith("--") and (not texts or option.takes(list)):
                    texts.append(waiting.popleft())
            if not texts:
                raise ConfigError(f"{flag} takes a value. See {self.prog} --help.")
            texts = [current_options({option.name: text})[option.name] for text in texts]
            if key:
                typed.setdefault(option.name, {})[key] = read_value(flag, texts[0], Any)
            else:
                typed[option.name] = option.read(texts)
        return places, typed

    def _find(self, flag: str) -> tuple[Option, str, bool]:
        """The option that a flag names, the key after a dot, and whether ``--no-`` switches it off."""
        name, _, key = flag.removeprefix("--").partition(".")
        name, known = name.replace("-", "_"), self._all()
        if name not in known:
            for renamed in RENAMED.get(name, ()):
                if renamed in known:
                    logger.warning(f"{flag} is called {known[renamed].flag} now; the old name works in this release.")
                    return known[renamed], key, False
        option = known.get(name)
        if option is not None and (not key or option.takes(dict)):
            if name in self.in_file:
                logger.warning(
                    f"{flag} belongs in a YAML file for --config FILE now, as '{name}: …'; as an option it works in "
                    "this release."
                )
            return option, key, False
        positive = known.get(name.removeprefix("no_"))
        if name.startswith("no_") and positive is not None and positive.takes(bool) and not key:
            return positive, "", True
        # Without the dashes, which would make any two options similar.
        names = [option.flag[2:] for option in self.options.values()]
        names += [f"no-{option.flag[2:]}" for option in self.options.values() if option.takes(bool)]
        near = difflib.get_close_matches(flag.lstrip("-").replace("_", "-"), [*names, "help", "verbose"], n=1)
        hint = f" Did you mean --{near[0]}?" if near else ""
        raise ConfigError(f"{self.prog} has no option {flag}.{hint} See {self.prog} --help.")

    def _check_stored(self, stored: Mapping[str, Any], file: str) -> dict[str, Any]:
        """The options of a configuration file, checked."""
        known, checked = self._all(), {}
        places = {place.name for place in self.places}
        for name, value in stored.items():
            if name in places:
                continue
            if name == "out" and "out" in known and known["out"].group is None and is_run(Path(str(value))):
                continue  # the config.yaml of a run names the run folder, in which other verbs do not write
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f" Did you mean '{near[0]}'?" if near else ""
                raise ConfigError(f"{file}: {self.prog} has no option '{name}'.{hint}")
            kind = known[name].kind
            # YAML reads 1e-4 as text.
            checked[name] = read_value(f"{file}: {name}", value, kind) if isinstance(value, str) else value
            check_value(f"{file}: {name}", checked[name], kind)
        return checked

    def _fill_places(self, words: Sequence[str], stored: Mapping[str, Any]) -> dict[str, Any]:
        """Name → value of the words without a dash; those that are optional get what is left over."""
        waiting, filled = deque(words), dict[str, Any]()
        spare = len(waiting) - sum(place.required for place in self.places)
        for place in self.places:
            if place.many:
                filled[place.name] = list(waiting)
                waiting.clear()
            elif waiting and (place.required or spare > 0):
                filled[place.name] = waiting.popleft()
                spare -= not place.required
            else:
                filled[place.name] = stored.get(place.name)
            if place.required and not filled[place.name]:
                raise ConfigError(f"{self.prog} needs {place.name.upper()}: {place.help} See {self.prog} --help.")
        if waiting:
            raise ConfigError(
                f"{self.prog} has no use for '{waiting[0]}'. A path with blanks needs quotes. See {self.prog} --help."
            )
        return filled


def _options_of(group: type) -> dict[str, Option]:
    kinds = kinds_of(group)
    owners = {name: ancestor for ancestor in group.__mro__[-2::-1] for name in getattr(ancestor, "__annotations__", ())}
    return {
        entry.name: Option(entry.name, kinds[entry.name], default_of(entry), group=owners[entry.name])
        for entry in fields(group)
        if entry.name not in CHOSEN_BY_VERBS
    }


def _read_config(path: str) -> dict[str, Any]:
    """Name → value of a YAML file, under the names of today."""
    import yaml

    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no YAML file: {' '.join(str(error).split())}") from error
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}.") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path} has no options: it takes lines such as 'epochs: 10'.")
    return current_options({str(name): value for name, value in values.items()})


def check_config(config: TrainConfig) -> None:
    """Refuse options that cannot work and unknown names, without torch unless a network is to learn."""
    from positively.pipeline import check_probe_config, is_probe
    from positively.registry import TORCH

    check_probe_config(config)
    if not is_probe(config):
        TORCH["check"](config)


def make_config(kind: type[T], values: Values) -> T:
    """Make a dataclass from the values of its options; fields that are no options keep their defaults."""
    assert is_dataclass(kind)
    return kind(**{entry.name: getattr(values, entry.name) for entry in fields(kind) if hasattr(values, entry.name)})


def read_options(values: Values) -> ReadOptions:
    """How to read a table; its images are not looked for if embeddings take their place."""
    chosen = make_config(ReadOptions, values)
    return replace(chosen, find_images=False) if getattr(values, "embeddings", None) else chosen


def next_command(verb: str, table: str, values: Values) -> str:
    """The command of another verb for a table, with the options of this call that the verb takes too."""
    words = ["positively", verb, table]
    options: Mapping[str, Option] = import_module(f"positively.cli.{verb}").parser().options
    for option in options.values():
        value = getattr(values, option.name, option.default)
        if isinstance(value, dict):
            words += [word for key, one in value.items() for word in (f"{option.flag}.{key}", str(one))]
        elif value != option.default and option.name != "out":
            words.append(option.flag if value is not False else f"--no-{option.flag[2:]}")
            words += map(str, value if isinstance(value, list) else [value] * (not isinstance(value, bool)))
    return quoted(*words)
