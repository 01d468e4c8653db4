"""Batches: order of the images, and their pixels or embeddings with label states.

Every random draw is a function of (seed, epoch, image). A resumed run therefore sees the same batches as an
uninterrupted one, and several processes together see the batches of a single one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from positively.embedding.rows import FeatureRows, SelectedRows
from positively.errors import ConfigError, ImageError, option
from positively.images.reading import read_ahead
from positively.images.transforms import ImageTransform
from positively.labels import LabelTable
from positively.randomness import random_stream

# Label tables up to this size are converted to dense arrays once.
_DENSE_ENTRIES = 100_000_000

Item = TypeVar("Item")
Result = TypeVar("Result")
Key = tuple[int, int]
"""Epoch and row of one sample."""


@dataclass(frozen=True)
class Batch:
    """Batch of one process: inputs (images or embeddings), label states, and rows of the table."""

    inputs: Tensor
    states: Tensor
    rows: Tensor

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        """Copy to a device. From pinned memory, ``non_blocking`` overlaps the copy with other work."""
        parts = (self.inputs, self.states, self.rows)
        return Batch(*(part.to(device, non_blocking=non_blocking) for part in parts))

    def pin_memory(self) -> Batch:
        """Copy to pinned memory, from which a GPU can copy asynchronously; called by the loader."""
        return Batch(self.inputs.pin_memory(), self.states.pin_memory(), self.rows.pin_memory())


class TrainBatchSampler:
    """Rows of the batches of an epoch, for one process.

    The order is shuffled in each epoch. All batches are full, because a PU loss uses statistics of the batch; the few
    images left at the end of an epoch are skipped in that epoch.

    Pairs for mixup are neighbours in the batch: (0, 1), (2, 3) and so on. They are distributed over the processes in
    contiguous pieces, so that a pair stays on one process and does not depend on the number of processes. A single
    image left by an odd batch size goes to the last process.

    Args:
        rows: Number of images.
        batch_size: Batch size over all processes.
        seed: Random seed.
        rank: Index of this process.
        world: Number of processes.

    Raises:
        ConfigError: If there are fewer than two images per process.
    """

    def __init__(self, rows: int, batch_size: int, seed: int, rank: int = 0, world: int = 1) -> None:
        if batch_size < 2 * world:
            raise ConfigError(
                f"Batch size {batch_size} is too small: each of the {world} processes needs two images. "
                f"Pass {option('batch_size', 2 * world)} or more."
            )
        self.rows, self.seed = rows, seed
        self.batch_size = max(min(batch_size, rows), 2 * world)
        pairs = self.batch_size // 2
        ends = [2 * (process * pairs // world) for process in range(world)] + [self.batch_size]
        self.piece = range(ends[rank], ends[rank + 1])
        """Positions in the batch that belong to this process."""
        self.epoch, self.skip = 0, 0

    def __len__(self) -> int:
        return max(self.rows // self.batch_size, 1) - self.skip

    def __iter__(self) -> Iterator[list[Key]]:
        order = random_stream("order", self.seed, self.epoch).permutation(self.rows)
        # With fewer than two images per process, repeat images.
        order = np.resize(order, max(self.rows, self.batch_size))
        for step in range(self.skip, self.skip + len(self)):
            start = step * self.batch_size
            rows = order[start + self.piece.start : start + self.piece.stop]
            yield [(self.epoch, row) for row in rows.tolist()]


class SequentialBatchSampler:
    """Every ``world``-th row starting at ``rank``, each exactly once; used for scoring."""

    def __init__(self, rows: int, batch_size: int, rank: int = 0, world: int = 1) -> None:
        self.rows, self.batch_size = range(rank, rows, world), batch_size

    def __len__(self) -> int:
        return -(-len(self.rows) // self.batch_size)

    def __iter__(self) -> Iterator[list[Key]]:
        for start in range(0, len(self.rows), self.batch_size):
            yield [(-1, row) for row in self.rows[start : start + self.batch_size]]


class ImageDataset(Dataset[Any]):
    """Images of a table, read on demand; augmented unless the epoch is −1."""

    def __init__(self, table: LabelTable, transform: ImageTransform, seed: int = 0) -> None:
        self.table, self.transform, self.seed = table, transform, seed

    def __len__(self) -> int:
        return len(self.table)

    def pixels(self, epoch: int, row: int) -> npt.NDArray[np.uint8]:
        """Pixels of one image in this epoch, shape (H, W, 3)."""
        path = self.table.root / self.table.images[row]
        generator = None if epoch < 0 else random_stream("augment", self.seed, epoch, row)
        try:
            return self.transform(path, generator)
        except ImageError as error:
            raise ImageError(f"{self.table.place(row)}: {error.message}") from None

    def __getitems__(self, keys: Sequence[Key]) -> Batch | ImageError:
        """Load one batch. An unreadable image is returned as an error, because a worker would wrap its message."""
        rows = [row for _, row in keys]
        try:
            pixels = np.stack([self.pixels(epoch, row) for epoch, row in keys])
        except ImageError as error:
            return error
        # Channels-last memory layout: fastest for convolutions, and no copy.
        images = torch.from_numpy(pixels).permute(0, 3, 1, 2)
        return Batch(images, torch.from_numpy(self.table.states(rows)), torch.tensor(rows))


class FeatureDataset(Dataset[Any]):
    """Embeddings of the images of a table, in memory or memory-mapped.

    Args:
        table: Images and labels.
        features: Embeddings, one row per image.
        places: Row of ``features`` for each image of the table; default: the same row.
    """

    def __init__(self, table: LabelTable, features: FeatureRows, places: npt.NDArray[np.int64] | None = None) -> None:
        self.table, self.features = table, features
        self.places = np.arange(len(table)) if places is None else places
        # A step of a head takes milliseconds; converting sparse rows in each step would slow it down.
        self._states = table.states() if len(table) * len(table.classes) <= _DENSE_ENTRIES else None

    def __len__(self) -> int:
        return len(self.table)

    def inputs(self) -> FeatureRows:
        """Embeddings in table order: an array, or row access to memory-mapped ones."""
        is_mapped = not isinstance(self.features, np.ndarray)
        return SelectedRows(self.features, self.places) if is_mapped else self.features[self.places]

    def __getitems__(self, keys: Sequence[Key]) -> Batch:
        """Load one batch."""
        rows = [row for _, row in keys]
        inputs = torch.from_numpy(self.features[self.places[rows]]).float()
        if inputs.ndim == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        states = self.table.states(rows) if self._states is None else self._states[rows]
        return Batch(inputs, torch.from_numpy(states), torch.tensor(rows))


def _whole_batch(batch: Any) -> Any:
    """Collate function that does nothing, as datasets return whole batches. A function, so that it can be pickled."""
    return batch


def make_loader(
    samples: ImageDataset | FeatureDataset, order: TrainBatchSampler | SequentialBatchSampler, workers: int = 0
) -> Iterator[Batch]:
    """Iterate over batches of ``samples`` in ``order``, read by ``workers`` processes, or by threads if 0."""
    on_gpu = torch.cuda.is_available()
    batches: Iterable[Batch | ImageError]
    if isinstance(samples, FeatureDataset):
        batches = map(samples.__getitems__, order)
    elif not workers:
        batches = read_ahead(samples.__getitems__, order)
    else:
        batches = DataLoader(
            samples,
            batch_sampler=order,
            collate_fn=_whole_batch,
            num_workers=workers,
            pin_memory=on_gpu,
            generator=torch.Generator(),  # keeps DataLoader from drawing from the global generator
        )
    for batch in batches:
        if isinstance(batch, ImageError):
            raise batch
        yield batch.pin_memory() if on_gpu and not workers else batch
