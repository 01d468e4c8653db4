"""Pooled features of a frozen backbone and complete labels of a benchmark, train and test."""

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
    """A benchmark as features: N×D to learn from, T×D to score on."""

    name: str
    """Of the dataset: "coco-mini", "voc2007"."""
    backbone: str
    key: str
    """Short name of images, labels and network: results of other ones are never taken for theirs."""
    features: npt.NDArray[np.float32]
    truth: States
    """N×C complete states; 0 where not even the annotators could tell (VOC's difficult objects)."""
    test: npt.NDArray[np.float32]
    test_truth: States
    depth: Depth = "probe"
    """How much of the network learns: unless it is the head alone, features are maps N×C×H×W."""
    make_network: Callable[[], Classifier] | None = None
    """The network as it begins, of which features are computed."""


def within_train(photos: Photos) -> Photos:
    """Four fifths of the training photos to learn from, one fifth to judge by: where choices are made."""
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
    """Read a benchmark, and compute the features that are not in the store yet.

    Args:
        place: A folder that `positively.research.bench.datasets.read_dataset` reads.
        weights: File with the weights of the backbone, or "pretrained".
        backbone: Its name.
        store: Folder of the features; by default the user's cache.
        depth: How much of the network is to learn.
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
