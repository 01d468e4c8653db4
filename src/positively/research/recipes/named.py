"""Packaged YAML files that are selected by name: recipes and suites."""

from pathlib import Path

from positively.errors import ConfigError


def names_in(folder: Path) -> list[str]:
    """Names of the YAML files of a folder."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def find_file(folder: Path, kind: str, name: str) -> Path:
    """Path of the packaged file with this name, or of a YAML file of the user. Raises ConfigError if not found."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else folder / f"{name}.yaml"
    if not path.is_file():
        raise ConfigError(
            f"There is no {kind} '{name}'; choose from {', '.join(names_in(folder))}, or pass a YAML file."
        )
    return path
