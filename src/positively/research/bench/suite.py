"""A suite: one table or figure of the paper as a grid, written down in YAML."""

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
"""Ways to show a suite that follow a training through all its epochs: none of them is chosen."""
_SET_BY_THE_GRID = {"method", "method_options", "depth", "seed", "known_ratio", "flip_positives", "positives_only"}
_SET_BY_THE_GRID |= {"out", "resume", "devices", "nodes"}


@dataclass(frozen=True)
class Row:
    """One line of a table: a method with its options, and whatever else of the training differs."""

    name: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)
    published: bool = True
    """Let the method take what the paper's recipe says for the dataset and the ratio, and what the benchmark knows of
    the labels it hides (γ and α, the share of the positives that is known), under ``options``."""
    train: dict[str, Any] = field(default_factory=dict)
    """Other options of ``positively train``, such as lgconv."""

    def published_options(self, family: str, ratio: float, recipe: Recipe | None = None) -> dict[str, Any]:
        """Options of the paper's recipe for this family and ratio; a ``recipe`` wins over the family's own."""
        return (recipe or read_recipe("voc" if family == "voc" else "coco")).options(ratio)


@dataclass(frozen=True)
class Comparison:
    """One claim: on this family of datasets, the first side has the higher value."""

    claim: str
    higher: dict[str, Any]
    """Row, and ratio, noise or measure where they matter."""
    lower: dict[str, Any]
    family: str | None = None


@dataclass(frozen=True)
class Suite:
    """Rows × ratios × noises, and how the outcome is shown."""

    name: str
    title: str
    rows: tuple[Row, ...]
    ratios: tuple[float, ...]
    noises: tuple[float, ...] = (0.0,)
    show: Show = "ratio"
    """As the paper's Table 1 or 3, as rows × ratio or × noise, as rows × ratio each compared with the row ``against``,
    as curves over epochs, or as spread and τ an epoch."""
    against: str = ""
    """With ``show: rivals``, the row that the others are compared with."""
    measures: tuple[str, ...] = ("mAP",)
    """What is shown by ratio, a table each."""
    depths: tuple[str, ...] = ("probe", "tail", "finetune")
    """Depths at which there is something to measure."""
    train: dict[str, Any] = field(default_factory=dict)
    """Options of ``positively train`` for every row, such as another mask (single_positive, known_ratio_spread)."""
    claims: tuple[Comparison, ...] = ()
    text: str = ""

    def grid(self) -> Iterator[tuple[Row, float, float]]:
        """Every row with every ratio and noise."""
        for ratio in self.ratios:
            for noise in self.noises:
                for row in self.rows:
                    yield row, ratio, noise


def suite_names() -> list[str]:
    """Suites that come with the package."""
    return names_in(FOLDER)


def read_suite(name: str) -> Suite:
    """Read a suite by its name, or from a YAML file of one's own."""
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
        raise ConfigError(f"{path} is no suite (title, rows, ratios …): {error}.") from None
    _check(suite, path)
    return suite


def _check(suite: Suite, path: Path) -> None:
    known = {field.name for field in fields(TrainConfig)}
    for row in suite.rows:
        if row.method not in METHODS:
            raise ConfigError(f"{path}: row '{row.name}' has method '{row.method}'; there are {', '.join(METHODS)}.")
        for name in row.train:
            if name not in known or name in _SET_BY_THE_GRID:
                why = "is set by the grid" if name in known else "is no option of 'positively train'"
                raise ConfigError(f"{path}: row '{row.name}': '{name}' {why}.")
    unknown = [measure for measure in suite.measures if measure not in MEASURE_NAMES]
    if unknown:
        raise ConfigError(f"{path}: there is no measure {unknown[0]!r}; there are {', '.join(MEASURE_NAMES)}.")
    for key, given, words in (("show", [suite.show], get_args(Show)), ("depths", suite.depths, get_args(Depth))):
        wrong = [word for word in given if word not in words]
        if wrong:
            raise ConfigError(f"{path}: '{key}' has {', '.join(words)}, not {wrong[0]!r}.")
    names = {row.name for row in suite.rows}
    if (suite.show == "rivals" or suite.against) and suite.against not in names:
        raise ConfigError(f"{path}: 'against' names the row that others are compared with, not {suite.against!r}.")
    for claim in suite.claims:
        for side in (claim.higher, claim.lower):
            if side.get("row") not in names:
                raise ConfigError(f"{path}: the claim '{claim.claim}' names no row of this suite: {side.get('row')!r}.")
    if not all(0 < ratio <= 1 for ratio in suite.ratios) or not all(0 <= noise < 1 for noise in suite.noises):
        raise ConfigError(f"{path}: ratios lie above 0 and up to 1, noises from 0 and below 1.")
