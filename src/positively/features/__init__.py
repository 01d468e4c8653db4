"""Features of images, computed once and stored on disk."""

from positively.features.extract import extract, feature_key, frozen_network
from positively.features.fingerprint import fingerprint
from positively.features.store import FeatureStore, default_store

__all__ = ["FeatureStore", "default_store", "extract", "feature_key", "fingerprint", "frozen_network"]
