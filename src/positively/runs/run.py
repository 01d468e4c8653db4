"""A trained run → scores and tags of images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import nn

from positively.errors import ConfigError, ImageError, MetricError, RunError, and_more, option
from positively.finetune.extract import extract
from positively.finetune.loading import FeatureDataset, ImageDataset
from positively.finetune.scoring import score, sigmoid
from positively.images.decode import ImageSource
from positively.images.transforms import ImageTransform
from positively.labels import LabelTable
from positively.logs import logger
from positively.metrics import Evaluation, evaluate
from positively.models import Classifier, KernelHead
from positively.options import Runtime
from positively.runs.folder import RunFolder
from positively.runs.hub import find_run, push_to_hub, write_hub_folder
from positively.runs.saving import load_model, load_model_config
from positively.runs.tagging import Prediction, Tagger, named
from positively.tables.overlap import image_hashes, refuse_known

Scores = npt.NDArray[np.float64]


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
        runtime: Runtime = "auto",
    ) -> None:
        """Name a run.

        Args:
            path: The run folder.
            backbone: The module it was trained with, if that came from Python.
            device: Where to compute.
            head: 'linear' takes the plain head that was solved beside a kernel's; by default the run's own.
            precision: Give tags only where this share of them is expected to be right, in place of the run's own cuts.
            runtime: What runs the network on a CPU; 'auto' is ONNX Runtime where it is installed and images are many.
        """
        if precision is not None and not 0 < precision <= 1:
            raise ConfigError(f"{option('precision', precision)}: a share of right tags lies above 0 and up to 1.")
        self.folder = RunFolder(path)
        self._head, self.precision, self.runtime = head, precision, runtime
        self._backbone = backbone
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path,
        *,
        revision: str | None = None,
        token: str | bool | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        force_download: bool = False,
        **options: Any,
    ) -> Run:
        """A run of the Hugging Face hub, or of a folder.

        Args:
            pretrained_model_name_or_path: Repository, such as ``me/tagger``; a run folder; or what a dry run wrote.
            revision: Branch, tag or commit.
            token: Of a private repository; by default the one you are logged in with.
            cache_dir: Where the hub's client stores it.
            local_files_only: Take what is stored, and do not ask the hub.
            force_download: Fetch it again.
            **options: As :class:`Run` itself takes them.
        """
        hub = {"revision": revision, "token": token, "cache_dir": cache_dir}
        hub |= {"local_files_only": local_files_only, "force_download": force_download}
        return cls(find_run(pretrained_model_name_or_path, **hub), **options)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool | None = None,
        token: str | None = None,
        branch: str | None = None,
        create_pr: bool | None = None,
        commit_message: str | None = None,
        dry_run: str | Path | None = None,
    ) -> str:
        """Push the run to the Hugging Face hub, without names, hashes and scores of photos and without its report.

        A kernel's head is made of features of some photos of the table: whoever has such a photo can tell.

        Args:
            repo_id: Repository, such as ``me/tagger``; it is made if it is not there.
            private: Whether a new repository is private; default: as your account says.
            token: By default the one you are logged in with.
            branch: Where to; default: the main one.
            create_pr: Whether to propose it in place of pushing it.
            commit_message: What to say of it.
            dry_run: Write what would be pushed to this new folder, and push nothing.

        Returns:
            Address of the commit, or the folder of a dry run.
        """
        if isinstance(dry_run, bool):
            raise ConfigError(f"{option('dry_run')} takes the folder into which it is written, not {dry_run}.")
        if dry_run is not None:
            return str(write_hub_folder(self.folder, Path(dry_run), repo_id))
        told = {"private": private, "token": token, "branch": branch, "create_pr": create_pr}
        return push_to_hub(self.folder, repo_id, commit_message=commit_message, **told)

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
            beside = ", and 'linear' beside it" if own == "kernel" else ""
            raise RunError(f"{self.path} has head '{own}'{beside}, and no '{self._head}'.")
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
        samples = ImageDataset(table.with_classes(self.classes), self.transform)
        logits = score(self.model, samples, device=self.device, workers=workers, progress=progress, all_processes=False)
        return sigmoid(logits)

    @property
    def transform(self) -> ImageTransform:
        """How images become the network's pixels."""
        return ImageTransform(self.model.backbone.image_size, self.model.backbone.interpolation)

    def _stored_scores(self, table: LabelTable, workers: int, progress: Callable[[int], None] | None) -> Scores:
        """As :meth:`scores`, by kept features: the next run with this frozen backbone finds them on disk."""
        counted = 0

        def count(done: int, todo: int) -> None:
            nonlocal counted
            if progress:
                progress(done - counted)
            counted = done

        features = extract(
            self.model,
            table,
            self.transform,
            workers=workers,
            runtime=self.runtime,
            progress=count,
            all_processes=False,
        )
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
        if not self.folder.holds_run:  # it came from the hub, where nothing tells of the photos
            logger.warning(f"{self.path} does not say which images it learned from: make sure that these are others.")
            return
        seen = {code: ("the training table", image) for code, image in self.folder.read_images().items()}
        refuse_known(dict(zip(image_hashes(table), table.images, strict=True)), seen, table.source)

    def predict(
        self, images: ImageSource | Sequence[ImageSource], *, top: int | None = None, skip_broken: bool = False
    ) -> list[Prediction]:
        """Tags of images (or of one), best first: where scores reach thresholds, or the ``top`` best learned ones.

        Args:
            images: Paths, encoded files as bytes, PIL images or arrays of pixels H×W×3; a mixture of them, one alone,
                or one array N×H×W×3.
            top: This many best tags, whatever the cuts say.
            skip_broken: Return what cannot be read as a prediction with an ``error`` and no tag, in place of raising.
        """
        return list(self.stream(images, top=top, skip_broken=skip_broken))

    def stream(
        self, images: ImageSource | Iterable[ImageSource], *, top: int | None = None, skip_broken: bool = False
    ) -> Iterator[Prediction]:
        """As :meth:`predict`, one after the other, for any number of images."""
        load_model_config(self.folder)  # a run that cannot be used is said before any image is looked at
        several: Any = [images] if _is_one(images) else images
        tagger = Tagger(self, len(several) if isinstance(several, Sized) else 0, top)
        for prediction in tagger(named(several)):
            if prediction.error and not skip_broken:
                mend = f"Mend it, or pass {option('skip_broken', True)}."
                raise ImageError(f"{prediction.image}: {prediction.error}. {mend}")
            yield prediction


def _is_one(images: object) -> bool:
    """Whether this is a single image, not several."""
    if isinstance(images, np.ndarray):
        return images.ndim < 4 and images.dtype.kind not in "OSU"  # an array of paths is several
    is_source = isinstance(images, str | Path | bytes | bytearray | memoryview | Image.Image)
    return is_source or hasattr(images, "read") or not isinstance(images, Iterable)
