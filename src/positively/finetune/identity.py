"""Identity of a training: the options that determine its result, by which benchmark cells and checkpoints are found.

Only values that differ from the defaults are part of it, so that a new option whose default changes nothing does not
invalidate stored results. Raise ``SCHEMA`` when the meaning of a default or of an automatic choice changes.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from positively.config import TrainConfig
from positively.finetune.auto import resolve_defaults

SCHEMA = 6
"""Version of the meaning of defaults and automatic choices; checked by a test."""

ALWAYS = ("method", "depth", "backbone", "weights", "image_size", "batch_size", "epochs")
"""Options that are always part of the identity, because their resolved values depend on machine and table."""

NOT_PART_OF_THE_RESULT = frozenset(
    {"out", "resume", "accelerator", "devices", "nodes", "workers", "cache", "checkpoint_minutes", "stop_epoch"}
    | {"plugin", "runtime"}
)
"""Options that may differ when a run is resumed."""

_STORED_NAMES = {"method_options": "options", "dtype": "precision"}
"""Names of renamed options in stored results."""


def training_identity(config: TrainConfig) -> dict[str, Any]:
    """All options that determine the result of a resolved configuration and differ from the resolved defaults."""
    baseline = resolve_defaults(config)
    named: dict[str, Any] = {"schema": SCHEMA}
    for entry in fields(config):
        value = getattr(config, entry.name)
        if entry.name in NOT_PART_OF_THE_RESULT:
            continue
        if entry.name in ALWAYS or value != getattr(baseline, entry.name):
            named[_STORED_NAMES.get(entry.name, entry.name)] = value
    return named
