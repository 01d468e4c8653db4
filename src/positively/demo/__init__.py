"""The demo: a small photo library with incomplete tags, and how well the missing ones are found."""

from positively.demo.comparison import Comparison, Result, compare
from positively.demo.library import NEW_PHOTOS, PHOTOS, TAGS, Library, make_library

__all__ = ["NEW_PHOTOS", "PHOTOS", "TAGS", "Comparison", "Library", "Result", "compare", "make_library"]
