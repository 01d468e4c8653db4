"""Pooled features of a frozen backbone and complete labels of a benchmark, train and test."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from positively.bench.datasets import read_dataset
from positively.data.options import ReadOptions
from positively.data.transforms import ImageTransform
from positively.features import extract, feature_key
from positively.labels import States
from positively.models import create_classifier
from positively.randomness import random_stream

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


def within_train(photos: Photos) -> Photos:
    """Four fifths of the training photos to learn from, one fifth to judge by: where choices are made."""
    order = random_stream("study choices", 0).permutation(len(photos.features))
    judged, learned = (np.sort(part) for part in np.split(order, [len(order) // 5]))
    return Photos(
        f"{photos.name}, parts of train",
        photos.backbone,
        photos.key,
        photos.features[learned],
        photos.truth[learned],
        photos.features[judged],
        photos.truth[judged],
    )


def read_photos(place: Path, weights: str, backbone: str = BACKBONE, store: Path | None = None) -> Photos:
    """Read a benchmark, and compute the features that are not in the store yet.

    Args:
        place: A folder that :func:`positively.bench.datasets.read_dataset` reads.
        weights: File with the weights of the backbone, or "pretrained".
        backbone: Its name.
        store: Folder of the features; by default the user's cache.
    """
    data = read_dataset(place, ReadOptions())
    network = create_classifier(backbone, len(data.train.classes), weights, depth="probe")
    transform = ImageTransform(IMAGE_SIZE, network.backbone.interpolation)
    train, test = (
        np.asarray(extract(network, table, transform, store=store)[np.arange(len(table))])
        for table in (data.train, data.test)
    )
    code = f"{data.digest()} {feature_key(network, transform)}".encode()
    key = hashlib.blake2b(code, digest_size=5).hexdigest()
    return Photos(data.name, backbone, key, train, data.train.states(), test, data.test.states())
