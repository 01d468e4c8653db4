"""What a training is known by: a bench cell finds its result, and a run its checkpoint, by what shapes the outcome.

Only what differs from the defaults counts, so that an option which is added later, with a default that changes nothing,
orphans neither. Whoever changes what a default or an automatic choice means raises ``SCHEMA``.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from positively.config import TrainConfig
from positively.finetune.auto import resolve_defaults

SCHEMA = 6
"""Number of the meaning of defaults and automatic choices; a test holds them."""

ALWAYS = ("method", "depth", "backbone", "weights", "image_size", "batch_size", "epochs")
"""Named even if they are the default: they say at a glance what a training is; machine and table decide on most."""

NOT_PART_OF_THE_RESULT = frozenset(
    {"out", "resume", "accelerator", "devices", "nodes", "workers", "cache", "checkpoint_minutes", "stop_epoch"}
    | {"plugin", "runtime"}
)
"""Options that may differ when a run is resumed."""

_FIRST_NAMES = {"method_options": "options", "dtype": "precision"}
"""Names under which stored results know options that were renamed since."""


def training_identity(config: TrainConfig) -> dict[str, Any]:
    """Everything that shapes the outcome of a resolved configuration and differs from what it would be if left open."""
    baseline = resolve_defaults(config)
    named: dict[str, Any] = {"schema": SCHEMA}
    for entry in fields(config):
        value = getattr(config, entry.name)
        if entry.name in NOT_PART_OF_THE_RESULT:
            continue
        if entry.name in ALWAYS or value != getattr(baseline, entry.name):
            named[_FIRST_NAMES.get(entry.name, entry.name)] = value
    return named
