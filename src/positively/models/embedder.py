"""Torch embeds images: on a GPU, or by a module of your own."""

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
    """Images → pooled features of a frozen backbone, in batches."""

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
        """Build the backbone; arguments as of `positively.embedding.find_embedder`."""
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            body = create_backbone(backbone, weights, image_size or 224)
        self.backbone: Backbone = body.requires_grad_(False).eval()
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.pooling, self.window = pooling, window
        self.preprocessing = Preprocessing(body.image_size, body.mean, body.std, body.interpolation)
        told = fingerprint(body, self.preprocessing, pooling, window, PIXELS_VERSION)
        self.key = hashlib.blake2b(told.encode(), digest_size=12).hexdigest()

    @torch.inference_mode()
    def __call__(self, images: Iterable[Image.Image], /) -> Iterator[Vector]:
        """The embedding of each image, in order."""
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
        """Write the backbone as an ONNX file, and return what embeds images with it in place of torch.

        Raises:
            RunError: The backbone cannot be exported.
        """
        write_backbone(self.backbone.cpu(), path)
        name, preprocessing = self.backbone.name, self.preprocessing
        return BackboneEmbedder(name, path, preprocessing, pooling=self.pooling, window=self.window)
