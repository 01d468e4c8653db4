"""Find the tags that are probably missing from a table."""

from positively.missing.find import missing_in_scores, missing_in_table
from positively.missing.rank import rank_missing
from positively.missing.result import ClassCounts, MissingTags, Pairs, Suggestion

__all__ = [
    "ClassCounts",
    "MissingTags",
    "Pairs",
    "Suggestion",
    "missing_in_scores",
    "missing_in_table",
    "rank_missing",
]
