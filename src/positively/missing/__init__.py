"""Scores of a table's images and their label states in, the tags that are probably missing out."""

from positively.missing.listing import ClassCounts, MissingTags, Suggestion
from positively.missing.rank import rank_missing

__all__ = ["ClassCounts", "MissingTags", "Suggestion", "rank_missing"]
