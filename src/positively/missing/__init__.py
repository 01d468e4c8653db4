"""Scores of a table's images and their label states in, the tags that are probably missing out."""

from positively.missing.asking import MIXED, Question, Way
from positively.missing.audit import AuditDesign, Estimate, Precision
from positively.missing.column import ClassProgress
from positively.missing.finding import missing_in_run, missing_in_scores, missing_in_table
from positively.missing.listing import ClassCounts, MissingTags, Pairs, Suggestion
from positively.missing.rank import rank_missing
from positively.missing.review import ReviewModel
from positively.missing.simulate import audit_coverage, simulate

__all__ = [
    "MIXED",
    "AuditDesign",
    "ClassCounts",
    "ClassProgress",
    "Estimate",
    "MissingTags",
    "Pairs",
    "Precision",
    "Question",
    "ReviewModel",
    "Suggestion",
    "Way",
    "audit_coverage",
    "missing_in_run",
    "missing_in_scores",
    "missing_in_table",
    "rank_missing",
    "simulate",
]
