"""The public face: read a table, fit a model, use the run."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from torch import nn

from positively.data.options import ReadOptions
from positively.data.table import read_table
from positively.errors import ConfigError
from positively.labels import LabelTable
from positively.predict import Run
from positively.training.config import TrainConfig
from positively.training.fit import train

__all__ = ["Run", "fit", "read"]


def read(path: str | Path, *, split: str | None = None, quiet: bool = False, **options: Any) -> LabelTable:
    """Read a table of tags (CSV, TSV or Parquet) and print how it was understood.

    Args:
        path: The file.
        split: Only the rows whose split column says so.
        quiet: Print nothing.
        **options: Fields of :class:`positively.data.options.ReadOptions`, such as ``images="photos/"``.
    """
    _check_names(options, ReadOptions, "read")
    table, notes = read_table(path, ReadOptions(**options))
    if not quiet:
        print("\n".join(notes))
    return table.split(split) if split else table


def fit(
    table: LabelTable,
    *,
    method: str = "pu-mlc",
    backbone: str | nn.Module = "auto",
    config: TrainConfig | None = None,
    **options: Any,
) -> Run:
    """Train a classifier on a table and return the run.

    Args:
        table: Tags of the training images.
        method: Name of the method.
        backbone: Name of a timm model, or a module that maps images B×3×H×W to a feature map or vectors.
        config: A whole configuration, in place of single options.
        **options: Fields of :class:`positively.training.config.TrainConfig`, such as ``epochs=10``.
    """
    _check_names(options, TrainConfig, "fit")
    module = backbone if isinstance(backbone, nn.Module) else None
    name = type(backbone).__name__ if isinstance(backbone, nn.Module) else backbone
    settings = replace(config, **options) if config else TrainConfig(method=method, backbone=name, **options)
    return Run(train(table, settings, backbone=module), backbone=module)


def _check_names(options: dict[str, Any], kind: type, function: str) -> None:
    known = [field.name for field in fields(kind)]
    for name in options:
        if name not in known:
            raise ConfigError(f"{function} has no option '{name}'; it has {', '.join(known)}.")
