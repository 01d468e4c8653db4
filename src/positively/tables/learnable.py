"""Whether a table was given, and whether anything can be learned from it, before any image is decoded."""

from positively.errors import ConfigError, TableError, option, plural
from positively.labels import NEGATIVE, POSITIVE, LabelTable
from positively.options import shown_value

FEWEST = 3
"""Photos with a tag that it takes to learn the tag."""


def require_learnable(table: LabelTable) -> None:
    """Raise if nothing can be learned from a table.

    Raises:
        TableError: The sentence says why.
    """
    reason = why_unlearnable(table)
    if reason:
        raise TableError(reason)


def why_unlearnable(table: LabelTable) -> str | None:
    """A sentence if nothing can be learned from a table, else None."""
    known, absent = table.counts(POSITIVE), table.counts(NEGATIVE)
    if len(table) == 1:
        return f"{table.source}: nothing can be learned from a single photo. Add photos."
    if not known.any():
        return (
            f"{table.source}: no photo has a tag, so there is nothing to learn from. Tag a few photos of each kind; "
            "`positively review` helps with that."
        )
    if ((known >= FEWEST) & (known < len(table))).any():
        return None
    if (known == len(table)).all() and not absent.any():
        tags = f"the tag '{table.classes[0]}'" if len(known) == 1 else f"all {len(known):,} tags"
        return f"{table.source}: every photo has {tags}, so there is nothing to tell apart. Add other photos."
    most = int(known.argmax())
    fix = f" Tag at least {FEWEST} photos of each kind, or merge tags with {option('aliases', 'FILE')}."
    return (
        f"{table.source}: no tag has {FEWEST} photos and is missing on others, so nothing can be learned. The most "
        f"frequent tag, '{table.classes[most]}', has {plural(int(known[most]), 'photo')} of {len(table):,}.{fix}"
    )


def require_table(given: object, function: str, reading: str) -> None:
    """Raise if a function was not given a table; ``reading`` is the call that reads one."""
    if not isinstance(given, LabelTable):
        raise ConfigError(f"{function} takes a table, not {shown_value(given)}; read it first: {reading}.")
