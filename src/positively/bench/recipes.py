"""Recipes: the published experiments as YAML files, with what is published and what we had to choose marked in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from positively.bench.named import find_file, names_in
from positively.errors import ConfigError

FOLDER = Path(__file__).parent / "recipes"


@dataclass(frozen=True)
class Recipe:
    """One experiment of the paper."""

    name: str
    title: str
    train: dict[str, Any]
    """Options of ``positively train``."""
    gamma: dict[float, float]
    """Exponent of the re-balance factor for each known ratio."""

    def options(self, ratio: float) -> dict[str, Any]:
        """Options of the method at this known ratio; between two listed ratios γ is that of the nearer one."""
        nearest = min(self.gamma, key=lambda listed: abs(listed - ratio))
        return {**self.train.get("options", {}), "gamma": self.gamma[nearest]}


def recipe_names() -> list[str]:
    """Recipes that come with the package."""
    return names_in(FOLDER)


def read_recipe(name: str) -> Recipe:
    """Read a recipe by its name, or from a YAML file of one's own."""
    path = find_file(FOLDER, "recipe", name)
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        base = read_recipe(values["base"]) if "base" in values else Recipe("", "", {}, {})
        gamma = {float(ratio): float(value) for ratio, value in values.get("gamma", base.gamma).items()}
        return Recipe(path.stem, values["title"], {**base.train, **values["train"]}, gamma)
    except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{path} is no recipe (title, train, and gamma or base): {error}.") from None
