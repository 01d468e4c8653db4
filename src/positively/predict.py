"""A trained run → scores and tags of images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from positively.data.images import find_broken, is_image_name
from positively.data.loading import FeatureDataset, ImageDataset
from positively.data.overlap import image_hashes, refuse_known
from positively.data.transforms import ImageTransform
from positively.errors import ConfigError, ImageError, MetricError, RunError, and_more, option
from positively.features import extract
from positively.labels import LabelTable
from positively.metrics import Evaluation, evaluate
from positively.models import Classifier, KernelHead
from positively.runs.folder import RunFolder
from positively.runs.saving import load_model, load_model_config
from positively.runs.scoring import score, sigmoid

Scores = npt.NDArray[np.float64]

# Images looked at before the first of them is scored: broken ones are found before anything is printed of the rest.
_CHUNK_IMAGES = 1024


@dataclass(frozen=True)
class Prediction:
    """Tags of one image, best first, with their scores."""

    image: str
    tags: dict[str, float]
    error: str | None = None
    """Why the image could not be read, if broken images are skipped."""


class Run:
    """A finished run, loaded when it is first used.

    >>> Run("runs/none-such").classes
    Traceback (most recent call last):
    positively.errors.RunError: There is no run folder runs/none-such.
    """

    def __init__(
        self,
        path: str | Path,
        backbone: nn.Module | None = None,
        device: str | None = None,
        *,
        head: str | None = None,
        precision: float | None = None,
    ) -> None:
        """Name a run.

        Args:
            path: The run folder.
            backbone: The module it was trained with, if that came from Python.
            device: Where to compute.
            head: 'linear' takes the plain head that was solved beside a kernel's; by default the run's own.
            precision: Give tags only where this share of them is expected to be right, in place of the run's own cuts.
        """
        if precision is not None and not 0 < precision <= 1:
            raise ConfigError(f"{option('precision', precision)}: a share of right tags lies above 0 and up to 1.")
        self.folder = RunFolder(path)
        self._head, self.precision = head, precision
        self._backbone = backbone
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")

    def __repr__(self) -> str:
        return f"Run({str(self.folder.path)!r})"

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.folder.path

    @cached_property
    def model_config(self) -> dict[str, Any]:
        """Content of config.json."""
        return load_model_config(self.folder)

    @property
    def classes(self) -> list[str]:
        """Names of the classes, in the model's order."""
        classes: list[str] = self.model_config["classes"]
        return classes

    @cached_property
    def thresholds(self) -> npt.NDArray[np.float64]:
        """Score from which on a class is predicted; infinite for a class that never is."""
        if self.precision is None and self.head == self.model_config["head"]:
            return self.folder.read_thresholds(self.classes)
        cuts = self.folder.read_calibration(self.head).cuts(self.precision)
        if self.precision is not None and not np.isfinite(cuts).any():
            raise RunError(
                f"No class of {self.path} is expected to be right in {100 * self.precision:g} % of its tags. Pass a "
                f"lower {option('precision')}."
            )
        return cuts

    @property
    def head(self) -> str:
        """The head that gives the scores."""
        own = str(self.model_config["head"])
        if self._head not in (None, own) and (self._head, own) != ("linear", "kernel"):
            raise RunError(f"{self.path} has head '{own}' and no '{self._head}'.")
        return self._head or own

    @cached_property
    def model(self) -> Classifier:
        """The network, ready for use."""
        model = load_model(self.folder, self.model_config, self._backbone)
        if self.head == "linear" and isinstance(model.head, KernelHead):
            model.replace_head(model.head.as_linear())
        return model.to(self.device)

    def scores(self, table: LabelTable, *, workers: int = 0, progress: Callable[[int], None] | None = None) -> Scores:
        """Scores N×C of a table's images, in the model's order of classes."""
        samples = ImageDataset(table.with_classes(self.classes), self._transform)
        logits = score(self.model, samples, device=self.device, workers=workers, progress=progress, all_processes=False)
        return sigmoid(logits)

    @property
    def _transform(self) -> ImageTransform:
        return ImageTransform(self.model.backbone.image_size, self.model.backbone.interpolation)

    def _stored_scores(self, table: LabelTable, workers: int, progress: Callable[[int], None] | None) -> Scores:
        """As :meth:`scores`, by kept features: the next run with this frozen backbone finds them on disk."""
        counted = 0

        def count(done: int, todo: int) -> None:
            nonlocal counted
            if progress:
                progress(done - counted)
            counted = done

        features = extract(self.model, table, self._transform, workers=workers, progress=count, all_processes=False)
        dataset = FeatureDataset(table, features)
        return sigmoid(score(self.model.trainable, dataset, device=self.device, all_processes=False))

    def evaluate(
        self, table: LabelTable, *, workers: int = 0, progress: Callable[[int], None] | None = None
    ) -> Evaluation:
        """Metrics on a table whose images the run has not seen; unknown labels are never scored."""
        missing = [name for name in table.classes if name not in set(self.classes)]
        if missing:
            raise RunError(f"{table.source} has classes the run does not know: {and_more(missing)}.")
        table = table.with_classes(self.classes)
        if not table.has_negatives:
            raise MetricError(
                f"{table.source} only lists tags; if they are complete, pass {option('blank', 'negative')}."
            )
        self._refuse_overlap(table)
        find_scores = self._stored_scores if self.model_config["depth"] == "probe" else self.scores
        scores = find_scores(table, workers=workers, progress=progress)
        return evaluate(scores, table.states(), self.classes, self.thresholds)

    def _refuse_overlap(self, table: LabelTable) -> None:
        seen = {code: ("the training table", image) for code, image in self.folder.read_images().items()}
        refuse_known(dict(zip(image_hashes(table), table.images, strict=True)), seen, table.source)

    def predict(
        self,
        images: str | Path | Sequence[str | Path],
        *,
        top: int | None = None,
        skip_broken: bool = False,
        workers: int = 0,
    ) -> list[Prediction]:
        """Tags of images (or of one), best first: where scores reach thresholds, or the ``top`` best learned ones."""
        images = [images] if isinstance(images, str | Path) else images
        return list(self.stream(images, top=top, skip_broken=skip_broken, workers=workers))

    def stream(
        self,
        images: Iterable[str | Path],
        *,
        top: int | None = None,
        skip_broken: bool = False,
        workers: int = 0,
    ) -> Iterator[Prediction]:
        """As :meth:`predict`, one after the other, for any number of images."""
        if top is not None and top < 1:
            raise ConfigError(f"The number of best tags is at least 1, not {top}.")
        load_model_config(self.folder)  # a run that cannot be used is said before any image is looked at
        chunk: list[str] = []
        for image in images:
            chunk.append(str(image))
            if len(chunk) == _CHUNK_IMAGES:
                yield from self._predict(chunk, top, skip_broken, workers)
                chunk = []
        if chunk:
            yield from self._predict(chunk, top, skip_broken, workers)

    def _predict(self, images: list[str], top: int | None, skip_broken: bool, workers: int) -> Iterator[Prediction]:
        broken = find_broken([Path(image) for image in images])
        if broken and not skip_broken:
            first = next(iter(broken))
            more = f" ({len(broken) - 1} more like this)" if len(broken) > 1 else ""
            raise ImageError(f"{images[first]}: {broken[first]}{more}. Mend it, or pass {option('skip_broken', True)}.")
        good = [image for row, image in enumerate(images) if row not in broken]
        table = LabelTable.from_positives(good, self.classes, [[] for _ in good])
        scores = iter(self.scores(table, workers=workers))
        for row, image in enumerate(images):
            if row in broken:
                yield Prediction(image, {}, broken[row])
                continue
            values = next(scores)
            order = np.argsort(-values, kind="stable")
            learned = order[np.isfinite(self.thresholds[order])]
            chosen = learned[:top] if top is not None else learned[values[learned] >= self.thresholds[learned]]
            yield Prediction(image, {self.classes[c]: float(values[c]) for c in chosen})


def find_images(places: Sequence[str | Path]) -> list[str]:
    """Image files named one by one, or lying anywhere under the folders named."""
    found: list[str] = []
    for place in map(Path, places):
        if place.is_dir():
            found += sorted(str(p) for p in place.rglob("*") if is_image_name(p.name) and p.is_file())
        elif place.exists():
            found.append(str(place))
        else:
            raise ImageError(f"{place}: no such file or folder.")
    if not found:
        raise ImageError(f"There are no images under {and_more(places)}.")
    return found
