"""The review page: a person accepts and rejects missing tags of a table."""

from typing import TYPE_CHECKING

from positively.lazy import lazy

if TYPE_CHECKING:
    from positively.review.audit import FEWEST_ANSWERS, Estimate, draw_audit, estimate_missing
    from positively.review.class_state import Column
    from positively.review.guard import Guard
    from positively.review.model import ReviewModel
    from positively.review.query import MIXED, Pair, Way
    from positively.review.server import create_app
    from positively.review.serving import listen
    from positively.review.session import ReviewSession
    from positively.review.store import DecisionStore

__all__ = [
    "FEWEST_ANSWERS",
    "MIXED",
    "Column",
    "DecisionStore",
    "Estimate",
    "Guard",
    "Pair",
    "ReviewModel",
    "ReviewSession",
    "Way",
    "create_app",
    "draw_audit",
    "estimate_missing",
    "listen",
]

__getattr__ = lazy(
    __name__,
    {
        "audit": ["Estimate", "FEWEST_ANSWERS", "draw_audit", "estimate_missing"],
        "class_state": ["Column"],
        "guard": ["Guard"],
        "model": ["ReviewModel"],
        "query": ["MIXED", "Pair", "Way"],
        "server": ["create_app"],
        "serving": ["listen"],
        "session": ["ReviewSession"],
        "store": ["DecisionStore"],
    },
)
