"""Recipes: the published experiments as YAML files. Comments mark what is published and what we had to choose."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from positively.config import TrainConfig, current_options
from positively.errors import ConfigError
from positively.research.recipes.named import find_file, names_in

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Recipe:
    """One experiment of the paper."""

    name: str
    title: str
    train: dict[str, Any]
    """Options of ``positively train``."""
    gamma: dict[float, float]
    """Exponent of the re-balance factor by known ratio."""

    def options(self, ratio: float) -> dict[str, Any]:
        """Options of the method at a known ratio; γ is that of the nearest listed ratio."""
        nearest = min(self.gamma, key=lambda listed: abs(listed - ratio))
        return {**self.train.get("method_options", {}), "gamma": self.gamma[nearest]}


def recipe_names() -> list[str]:
    """Names of the packaged recipes."""
    return names_in(FOLDER)


def read_recipe(name: str) -> Recipe:
    """Read a packaged recipe by name, or a YAML file. Raises ConfigError if it is not a valid recipe."""
    path = find_file(FOLDER, "recipe", name)
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        base = read_recipe(values["base"]) if "base" in values else None
        train = {**(base.train if base else {}), **current_options(values["train"])}
        gamma = values["gamma"] if base is None else values.get("gamma", base.gamma)
        recipe = Recipe(path.stem, values["title"], train, {float(ratio): float(g) for ratio, g in gamma.items()})
    except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{path} is not a recipe (title, train, and gamma or base): {error}.") from None
    unknown = [name for name in recipe.train if name not in {field.name for field in fields(TrainConfig)}]
    if unknown or "method" not in recipe.train or not recipe.gamma:
        problem = f"'{unknown[0]}' is not an option of 'positively train'" if unknown else "method or gamma is missing"
        raise ConfigError(f"{path}: {problem}.")
    return recipe
