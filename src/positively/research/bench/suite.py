"""Suites: a table or figure of the paper as a grid of trainings, defined in YAML."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from positively.config import TrainConfig
from positively.errors import ConfigError
from positively.finetune import METHODS
from positively.models import Depth
from positively.research.bench.tables import MEASURE_NAMES
from positively.research.recipes import Recipe, read_recipe
from positively.research.recipes.named import find_file, names_in

FOLDER = Path(__file__).parent / "suites"
Show = Literal["table1", "table3", "ratio", "rivals", "noise", "curves", "temperature"]
CURVES = ("curves", "temperature")
"""Values of ``show`` that plot all epochs, so that no epoch is chosen."""
_SET_BY_THE_GRID = {"method", "method_options", "depth", "seed", "known_ratio", "flip_positives", "positives_only"}
_SET_BY_THE_GRID |= {"out", "resume", "devices", "nodes"}


@dataclass(frozen=True)
class Row:
    """One row of a table: a method with its options, and other options of the training."""

    name: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)
    published: bool = True
    """Whether to pass the options of the paper's recipe for the dataset and ratio, and what the benchmark knows about
    hidden labels (γ and α, label frequency). ``options`` takes precedence."""
    train: dict[str, Any] = field(default_factory=dict)
    """Other options of ``positively train``, such as lgconv."""

    def published_options(self, family: str, ratio: float, recipe: Recipe | None = None) -> dict[str, Any]:
        """Options of the paper's recipe for this family and ratio, or of the given ``recipe``."""
        return (recipe or read_recipe("voc" if family == "voc" else "coco")).options(ratio)


@dataclass(frozen=True)
class Comparison:
    """A claim: the first side has the higher value, for datasets of this family."""

    claim: str
    higher: dict[str, Any]
    """Row, and ratio, noise or measure if they differ from the default."""
    lower: dict[str, Any]
    family: str | None = None


@dataclass(frozen=True)
class Suite:
    """Rows × ratios × noises, and how the results are shown."""

    name: str
    title: str
    rows: tuple[Row, ...]
    ratios: tuple[float, ...]
    noises: tuple[float, ...] = (0.0,)
    show: Show = "ratio"
    """As Table 1 or 3 of the paper, as rows × ratio or × noise, as rows × ratio compared with the row ``against``, as
    curves over epochs, or as spread and τ over epochs."""
    against: str = ""
    """The row that others are compared with, for ``show: rivals``."""
    measures: tuple[str, ...] = ("mAP",)
    """Measures shown by ratio, one table each."""
    depths: tuple[str, ...] = ("probe", "tail", "finetune")
    """Depths at which the suite can be measured."""
    train: dict[str, Any] = field(default_factory=dict)
    """Options of ``positively train`` for every row, such as another mask (single_positive, known_ratio_spread)."""
    claims: tuple[Comparison, ...] = ()
    text: str = ""

    def grid(self) -> Iterator[tuple[Row, float, float]]:
        """Iterate over all combinations of row, ratio and noise."""
        for ratio in self.ratios:
            for noise in self.noises:
                for row in self.rows:
                    yield row, ratio, noise


def suite_names() -> list[str]:
    """Names of the packaged suites."""
    return names_in(FOLDER)


def read_suite(name: str) -> Suite:
    """Read a packaged suite by name, or a YAML file. Raises ConfigError if it is not a valid suite."""
    path = find_file(FOLDER, "suite", name)
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        everywhere = values.get("train", {})
        rows = tuple(
            Row(name=row, **{**said, "train": {**everywhere, **said.get("train", {})}})
            for row, said in values.pop("rows").items()
        )
        claims = tuple(Comparison(**said) for said in values.pop("claims", ()))
        values |= {key: tuple(values[key]) for key in ("ratios", "noises", "depths", "measures") if key in values}
        suite = Suite(name=path.stem, rows=rows, claims=claims, **values)
    except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} is not a suite (title, rows, ratios …): {error}.") from None
    _check(suite, path)
    return suite


def _check(suite: Suite, path: Path) -> None:
    known = {field.name for field in fields(TrainConfig)}
    for row in suite.rows:
        if row.method not in METHODS:
            raise ConfigError(
                f"{path}: row '{row.name}': unknown method '{row.method}'; choose from {', '.join(METHODS)}."
            )
        for name in row.train:
            if name not in known or name in _SET_BY_THE_GRID:
                why = "is set by the grid" if name in known else "is not an option of 'positively train'"
                raise ConfigError(f"{path}: row '{row.name}': '{name}' {why}.")
    unknown = [measure for measure in suite.measures if measure not in MEASURE_NAMES]
    if unknown:
        raise ConfigError(f"{path}: there is no measure {unknown[0]!r}; choose from {', '.join(MEASURE_NAMES)}.")
    for key, given, words in (("show", [suite.show], get_args(Show)), ("depths", suite.depths, get_args(Depth))):
        wrong = [word for word in given if word not in words]
        if wrong:
            raise ConfigError(f"{path}: '{key}' must be one of {', '.join(words)}, not {wrong[0]!r}.")
    names = {row.name for row in suite.rows}
    if (suite.show == "rivals" or suite.against) and suite.against not in names:
        raise ConfigError(f"{path}: 'against' must name a row of the suite, not {suite.against!r}.")
    for claim in suite.claims:
        for side in (claim.higher, claim.lower):
            if side.get("row") not in names:
                raise ConfigError(f"{path}: claim '{claim.claim}' names an unknown row: {side.get('row')!r}.")
    if not all(0 < ratio <= 1 for ratio in suite.ratios) or not all(0 <= noise < 1 for noise in suite.noises):
        raise ConfigError(f"{path}: ratios must be above 0 and at most 1, noises at least 0 and below 1.")
