"""Embeddings of images, computed once and cached on disk, or read from files."""

from positively.embedding.backbones import (
    BACKBONES,
    DEFAULT,
    check_backbone,
    find_embedder,
    preprocessing_metadata,
    preprocessing_of,
    register_embedder,
)
from positively.embedding.base import Embedder, Embeddings, Pooling, Preprocessing
from positively.embedding.cache import FeatureStore, default_store
from positively.embedding.embed import embed
from positively.embedding.from_file import read_embeddings, read_named, write_embeddings
from positively.embedding.onnx import BackboneEmbedder, OnnxEmbedder

__all__ = [
    "BACKBONES",
    "DEFAULT",
    "BackboneEmbedder",
    "Embedder",
    "Embeddings",
    "FeatureStore",
    "OnnxEmbedder",
    "Pooling",
    "Preprocessing",
    "check_backbone",
    "default_store",
    "embed",
    "find_embedder",
    "preprocessing_metadata",
    "preprocessing_of",
    "read_embeddings",
    "read_named",
    "register_embedder",
    "write_embeddings",
]
