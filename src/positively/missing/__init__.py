"""Scores of a table's images and their label states in, the tags that are probably missing out."""

from positively.missing.asking import Question, Way
from positively.missing.audit import AuditDesign, Estimate
from positively.missing.column import ClassProgress
from positively.missing.listing import ClassCounts, MissingTags, Suggestion
from positively.missing.rank import rank_missing
from positively.missing.review import ReviewModel

__all__ = [
    "AuditDesign",
    "ClassCounts",
    "ClassProgress",
    "Estimate",
    "MissingTags",
    "Question",
    "ReviewModel",
    "Suggestion",
    "Way",
    "rank_missing",
]
