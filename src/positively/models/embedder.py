"""Embedding images with torch: on a GPU, or with a user-defined module."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

from positively.embedding import BackboneEmbedder, Pooling, Preprocessing
from positively.embedding.base import Vector
from positively.embedding.onnx import PIXELS_VERSION, pixels
from positively.images.reading import read_ahead
from positively.models.backbones import Backbone, create_backbone
from positively.models.exporting import write_backbone
from positively.models.fingerprint import fingerprint
from positively.models.heads.linear import pool_positions, pool_windows

_BATCH = 32


class NetworkEmbedder:
    """Computes pooled embeddings with a frozen backbone, in batches.

    Args:
        backbone: Name of a timm model, or a module.
        weights: ``"pretrained"``, ``"none"`` or a ``.safetensors`` file.
        image_size: Side of the images in pixels; default: 224.
        pooling: Pooling over positions.
        window: Side of the windows that are pooled in addition to the whole map; 0: none.
        seed: Seed of random weights.
        device: Device; default: the GPU if there is one.
    """

    def __init__(
        self,
        backbone: str | nn.Module,
        weights: str = "pretrained",
        *,
        image_size: int | None = None,
        pooling: Pooling = "average",
        window: int = 0,
        seed: int = 0,
        device: str | None = None,
    ) -> None:
        """Create the backbone."""
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            body = create_backbone(backbone, weights, image_size or 224)
        self.backbone: Backbone = body.requires_grad_(False).eval()
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.pooling, self.window = pooling, window
        self.preprocessing = Preprocessing(body.image_size, body.mean, body.std, body.interpolation)
        identity = fingerprint(body, self.preprocessing, pooling, window, PIXELS_VERSION)
        self.key = hashlib.blake2b(identity.encode(), digest_size=12).hexdigest()

    @torch.inference_mode()
    def __call__(self, images: Iterable[Image.Image], /) -> Iterator[Vector]:
        """Embed images. Yields one embedding per image, shape (D,), in order."""
        backbone = self.backbone.to(self.device)
        mean, std = (
            torch.tensor(values, device=self.device)[:, None, None]
            for values in (self.preprocessing.mean, self.preprocessing.std)
        )
        waiting = read_ahead(lambda image: pixels(image, self.preprocessing), images)
        while batch := list(islice(waiting, _BATCH)):
            with torch.inference_mode():
                read = (torch.from_numpy(np.stack(batch)).to(self.device) - mean) / std
                feature_map = backbone(read)
                pooled = (
                    pool_windows(feature_map, self.pooling, self.window)
                    if self.window
                    else pool_positions(feature_map, self.pooling)
                )
            yield from pooled.float().cpu().numpy()

    def export(self, path: Path) -> BackboneEmbedder:
        """Export the backbone to ONNX.

        Args:
            path: Path of the ONNX file.

        Returns:
            An embedder that gives the same embeddings without torch.

        Raises:
            RunError: If the backbone cannot be exported.
        """
        write_backbone(self.backbone.cpu(), path)
        name, preprocessing = self.backbone.name, self.preprocessing
        return BackboneEmbedder(name, path, preprocessing, pooling=self.pooling, window=self.window)
