"""Pooled embeddings of a frozen backbone and complete labels of a dataset, train and test."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from positively.finetune.extract import extract, feature_key
from positively.images import ImageTransform
from positively.labels import States
from positively.models import Classifier, Depth, create_classifier
from positively.randomness import random_stream
from positively.research.bench.datasets import read_dataset
from positively.tables import ReadOptions

IMAGE_SIZE = 224
BACKBONE = "tf_efficientnet_lite0"


@dataclass(frozen=True, eq=False)
class Photos:
    """A dataset as embeddings: (N, D) for training, (T, D) for testing."""

    name: str
    """Name of the dataset: "coco-mini", "voc2007"."""
    backbone: str
    key: str
    """Digest of images, labels and network, part of the file names of results."""
    features: npt.NDArray[np.float32]
    truth: States
    """Complete label states, shape (N, C); 0 where annotators were not sure (VOC's difficult objects)."""
    test: npt.NDArray[np.float32]
    test_truth: States
    depth: Depth = "probe"
    """Depth of the training; unless it is 'probe', embeddings are maps (N, C, H, W)."""
    make_network: Callable[[], Classifier] | None = None
    """Creates the network whose embeddings are used."""


def within_train(photos: Photos) -> Photos:
    """Split the training images into four fifths for training and one fifth for testing, for choices."""
    order = random_stream("study choices", 0).permutation(len(photos.features))
    judged, learned = (np.sort(part) for part in np.split(order, [len(order) // 5]))
    return replace(
        photos,
        name=f"{photos.name}, parts of train",
        features=photos.features[learned],
        truth=photos.truth[learned],
        test=photos.features[judged],
        test_truth=photos.truth[judged],
    )


def read_photos(
    place: Path, weights: str, backbone: str = BACKBONE, store: Path | None = None, depth: Depth = "probe"
) -> Photos:
    """Read a dataset, and compute missing embeddings.

    Args:
        place: A folder that `positively.research.bench.datasets.read_dataset` reads.
        weights: File with the weights of the backbone, or "pretrained".
        backbone: Name of the backbone.
        store: Folder of the embeddings; default: the user's cache.
        depth: Depth of the training.

    Returns:
        The dataset.
    """
    data = read_dataset(place, ReadOptions())
    options = {"depth": depth, "freeze_batchnorm": depth != "probe"}
    make_network = partial(create_classifier, backbone, len(data.train.classes), weights, **options)
    network = make_network()
    transform = ImageTransform(IMAGE_SIZE, network.backbone.interpolation)
    train, test = (
        np.asarray(extract(network, table, transform, store=store)[np.arange(len(table))])
        for table in (data.train, data.test)
    )
    code = f"{data.digest()} {feature_key(network, transform)}".encode()
    key = hashlib.blake2b(code, digest_size=5).hexdigest()
    states = data.train.states(), data.test.states()
    return Photos(data.name, backbone, key, train, states[0], test, states[1], depth, make_network)
