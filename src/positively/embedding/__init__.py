"""Embeddings of images, computed once and stored on disk."""

from positively.embedding.cache import FeatureStore, default_store

__all__ = ["FeatureStore", "default_store"]
