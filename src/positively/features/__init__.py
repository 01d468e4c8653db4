"""Features of images, computed once and kept on disk."""

from positively.features.extract import extract
from positively.features.store import FeatureStore, default_store, fingerprint

__all__ = ["FeatureStore", "default_store", "extract", "fingerprint"]
