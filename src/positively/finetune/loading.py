"""Batches: which images stand in which step, and their pixels, features and label states.

Every draw is a function of (seed, epoch, image), so that a resumed run sees what an unbroken one would, and two
processes see together what one would alone.
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

# Label tables up to this size are made dense once, where batches are asked for thousands of times.
_DENSE_ENTRIES = 100_000_000

# Threads that read images: beyond these the interpreter between two images would hold them up.
_MOST_THREADS = 4

Item = TypeVar("Item")
Result = TypeVar("Result")
Key = tuple[int, int]
"""Epoch and row of one sample."""


@dataclass(frozen=True)
class Batch:
    """What one process sees in one step: inputs (images or features), label states, rows of the table."""

    inputs: Tensor
    states: Tensor
    rows: Tensor

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        """Same batch on a device; from pinned memory, ``non_blocking`` lets the copy run beside other work."""
        parts = (self.inputs, self.states, self.rows)
        return Batch(*(part.to(device, non_blocking=non_blocking) for part in parts))

    def pin_memory(self) -> Batch:
        """Same batch in memory from which a GPU copies on its own; the loader calls this."""
        return Batch(self.inputs.pin_memory(), self.states.pin_memory(), self.rows.pin_memory())


class TrainBatchSampler:
    """Rows of every batch of an epoch, as this process sees them.

    The order is shuffled anew each epoch. Batches are full: the class statistics of a PU loss are taken over them; the
    few images left over at the end of an epoch have their turn in another.

    Mixup's pairs are neighbours in the batch, (0, 1), (2, 3) and so on. They are dealt as evenly as possible over the
    processes, in contiguous pieces, so that a pair stays on one process and does not depend on their number; the single
    image that an odd batch leaves over goes to the last process. All pieces together are the batch of one process.
    """

    def __init__(self, rows: int, batch_size: int, seed: int, rank: int = 0, world: int = 1) -> None:
        if batch_size < 2 * world:
            raise ConfigError(
                f"A batch of {batch_size} is too small: each process ({world} in all) needs two images. "
                f"Pass {option('batch_size', 2 * world)} or more."
            )
        self.rows, self.seed = rows, seed
        self.batch_size = max(min(batch_size, rows), 2 * world)
        pairs = self.batch_size // 2
        ends = [2 * (process * pairs // world) for process in range(world)] + [self.batch_size]
        self.piece = range(ends[rank], ends[rank + 1])
        """Positions in the batch that this process takes."""
        self.epoch, self.skip = 0, 0

    def __len__(self) -> int:
        return max(self.rows // self.batch_size, 1) - self.skip

    def __iter__(self) -> Iterator[list[Key]]:
        order = random_stream("order", self.seed, self.epoch).permutation(self.rows)
        # Fewer images than two for each process: begin again from the first.
        order = np.resize(order, max(self.rows, self.batch_size))
        for step in range(self.skip, self.skip + len(self)):
            start = step * self.batch_size
            rows = order[start + self.piece.start : start + self.piece.stop]
            yield [(self.epoch, row) for row in rows.tolist()]


class SequentialBatchSampler:
    """Every ``world``-th row from ``rank`` on, each exactly once: for scoring."""

    def __init__(self, rows: int, batch_size: int, rank: int = 0, world: int = 1) -> None:
        self.rows, self.batch_size = range(rank, rows, world), batch_size

    def __len__(self) -> int:
        return -(-len(self.rows) // self.batch_size)

    def __iter__(self) -> Iterator[list[Key]]:
        for start in range(0, len(self.rows), self.batch_size):
            yield [(-1, row) for row in self.rows[start : start + self.batch_size]]


class ImageDataset(Dataset[Any]):
    """Images of a table, read when asked for; augmented unless the epoch is −1."""

    def __init__(self, table: LabelTable, transform: ImageTransform, seed: int = 0) -> None:
        self.table, self.transform, self.seed = table, transform, seed

    def __len__(self) -> int:
        return len(self.table)

    def pixels(self, epoch: int, row: int) -> npt.NDArray[np.uint8]:
        """Pixels of one image as this epoch sees it."""
        path = self.table.root / self.table.images[row]
        generator = None if epoch < 0 else random_stream("augment", self.seed, epoch, row)
        try:
            return self.transform(path, generator)
        except ImageError as error:
            raise ImageError(f"{self.table.place(row)}: {error.message}") from None

    def __getitems__(self, keys: Sequence[Key]) -> Batch | ImageError:
        """One whole batch. An unreadable image comes back as its error, whole: a worker would bury the sentence."""
        rows = [row for _, row in keys]
        try:
            pixels = np.stack([self.pixels(epoch, row) for epoch, row in keys])
        except ImageError as error:
            return error
        # B×H×W×3 in memory, seen as B×3×H×W: the layout convolutions are fastest in, and no copy.
        images = torch.from_numpy(pixels).permute(0, 3, 1, 2)
        return Batch(images, torch.from_numpy(self.table.states(rows)), torch.tensor(rows))


class FeatureDataset(Dataset[Any]):
    """Features of a table's images, held in memory or mapped from disk.

    ``places`` says which row of the features belongs to each image of the table, if not the same one.
    """

    def __init__(self, table: LabelTable, features: FeatureRows, places: npt.NDArray[np.int64] | None = None) -> None:
        self.table, self.features = table, features
        self.places = np.arange(len(table)) if places is None else places
        # A head takes a step in milliseconds: unpacking sparse rows every time would be a good part of it.
        self._states = table.states() if len(table) * len(table.classes) <= _DENSE_ENTRIES else None

    def __len__(self) -> int:
        return len(self.table)

    def inputs(self) -> FeatureRows:
        """Features in the order of the table: an array, or what gives rows of those that are mapped from disk."""
        is_mapped = not isinstance(self.features, np.ndarray)
        return SelectedRows(self.features, self.places) if is_mapped else self.features[self.places]

    def __getitems__(self, keys: Sequence[Key]) -> Batch:
        """One whole batch."""
        rows = [row for _, row in keys]
        inputs = torch.from_numpy(self.features[self.places[rows]]).float()
        if inputs.ndim == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        states = self.table.states(rows) if self._states is None else self._states[rows]
        return Batch(inputs, torch.from_numpy(states), torch.tensor(rows))


def _whole_batch(batch: Any) -> Any:
    """Nothing to collate: the datasets make whole batches. A function, since workers that are spawned pickle it."""
    return batch


def make_loader(
    samples: ImageDataset | FeatureDataset, order: TrainBatchSampler | SequentialBatchSampler, workers: int = 0
) -> Iterator[Batch]:
    """Batches of ``samples`` in ``order``; ``workers`` processes read images ahead, or threads of this one."""
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
            generator=torch.Generator(),  # otherwise it draws from the caller's, for workers that need no seed
        )
    for batch in batches:
        if isinstance(batch, ImageError):
            raise batch
        yield batch.pin_memory() if on_gpu and not workers else batch
