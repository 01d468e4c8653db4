"""A trained run: scores and tags of images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from positively.embedding import Embedder, Embeddings, OnnxEmbedder, embed
from positively.errors import ConfigError, ImageError, MetricError, RunError, and_more, option, plural
from positively.images.decode import ImageSource
from positively.images.reading import read_ahead
from positively.images.transforms import ImageTransform
from positively.labels import POSITIVE, LabelTable
from positively.logs import logger
from positively.machine import trains_on_gpu
from positively.metrics import Evaluation, evaluate
from positively.metrics.logits import sigmoid
from positively.options import Runtime
from positively.probe import KernelClassifier, LinearClassifier
from positively.registry import EMBEDDERS, TORCH
from positively.runs.folder import RunFolder
from positively.runs.predictor import (
    OnnxPredictor,
    Predictor,
    ProbePredictor,
    module_embedder,
    preprocessing_of_run,
)
from positively.runs.saving import load_classifier, load_model_config
from positively.runs.tagging import Prediction, Tagger, is_one, load_row, named
from positively.tables.learnable import require_table
from positively.tables.overlap import refuse_learned

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
        backbone: Any = None,
        device: str | None = None,
        *,
        head: str | None = None,
        min_precision: float | None = None,
        runtime: Runtime = "auto",
    ) -> None:
        """Open a run.

        Args:
            path: The run folder.
            backbone: The torch module it was trained with, if it was trained on one.
            device: Device for torch; by default a GPU if there is one.
            head: 'linear' uses the linear classifier that was fitted with the kernel; default: the run's own head.
            min_precision: Use thresholds at which this share of the tags is expected to be right, in place of the run's
                own thresholds.
            runtime: What runs a network: 'onnx' (ONNX Runtime), 'torch', or 'auto': torch if there is a GPU, else
                the run's ONNX file.
        """
        if min_precision is not None and not 0 < min_precision <= 1:
            raise ConfigError(f"{option('min_precision', min_precision)}: must be above 0 and at most 1.")
        self.folder = RunFolder(path)
        self._head, self.min_precision, self.runtime = head, min_precision, runtime
        self.backbone, self.device = backbone, device
        self.temporary: TemporaryDirectory[str] | None = None
        """Folder that is removed together with this object, of a run that was not to be kept."""

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
        """Open a run from the Hugging Face hub, or from a folder.

        Args:
            pretrained_model_name_or_path: Repository, such as ``me/tagger``; a run folder; or the folder of a dry run.
            revision: Branch, tag or commit.
            token: Token for a private repository; by default that of your login.
            cache_dir: Cache folder of the hub's client.
            local_files_only: Use only the cache.
            force_download: Download it again.
            **options: Options of :class:`Run`.
        """
        from positively.runs.hub import find_run

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
        """Push the run to the Hugging Face hub, without names, hashes and scores of images and without its report.

        A kernel head contains embeddings of some images of the table: someone who has such an image can recognize it.

        Args:
            repo_id: Repository, such as ``me/tagger``; it is created if needed.
            private: Whether a new repository is private; default: the setting of your account.
            token: By default that of your login.
            branch: Branch to push to; default: the main branch.
            create_pr: Whether to open a pull request instead.
            commit_message: Message of the commit.
            dry_run: Write to this new folder what would be pushed, and push nothing.

        Returns:
            Address of the commit, or the folder of a dry run.
        """
        from positively.runs.hub import push_to_hub, write_hub_folder

        if isinstance(dry_run, bool):
            raise ConfigError(f"{option('dry_run')} takes a folder to write to, not {dry_run}.")
        if dry_run is not None:
            return str(write_hub_folder(self.folder, Path(dry_run), repo_id))
        told = {"private": private, "token": token, "branch": branch, "create_pr": create_pr}
        return push_to_hub(self.folder, repo_id, commit_message=commit_message, **told)

    def __repr__(self) -> str:
        return f"Run({str(self.folder.path)!r})"

    def _repr_html_(self) -> str:
        """Folder, method, backbone and classes, for notebooks."""
        config = self.model_config
        told = {"run": self.path, "method": config.get("method"), "backbone": config["backbone"]}
        told["classes"] = f"{len(self.classes):,}: {and_more(self.classes, 10)}"
        rows = "".join(f"<tr><th>{name}</th><td>{escape(str(value))}</td></tr>" for name, value in told.items())
        return f"<table>{rows}</table>"

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
        """Names of the classes, in the order of the model."""
        classes: list[str] = self.model_config["classes"]
        return classes

    @cached_property
    def thresholds(self) -> npt.NDArray[np.float64]:
        """Threshold of the score of each class; infinite for a class that is never given."""
        if self.min_precision is None and self.head == self.model_config["head"]:
            return self.folder.read_thresholds(self.classes)
        thresholds = self.folder.read_calibration(self.head).thresholds(self.min_precision)
        if self.min_precision is not None and not np.isfinite(thresholds).any():
            raise RunError(
                f"No class of {self.path} reaches an expected precision of {100 * self.min_precision:g} %. Pass "
                f"a lower {option('min_precision')}."
            )
        return thresholds

    @property
    def head(self) -> str:
        """The head that gives the scores."""
        own = str(self.model_config["head"])
        if self._head not in (None, own) and (self._head, own) != ("linear", "kernel"):
            more = " and 'linear'" if own == "kernel" else ""
            raise RunError(f"{self.path} has head '{own}'{more}, but not '{self._head}'.")
        return self._head or own

    @property
    def is_probe(self) -> bool:
        """Whether it is a probe on a frozen backbone."""
        return bool(self.model_config.get("kind") == "probe")

    @property
    def image_size(self) -> int:
        """Side of the network's input in pixels."""
        return int(self.model_config["image_size"])

    @property
    def transform(self) -> ImageTransform:
        """Transform from images to the network's input."""
        return ImageTransform(self.image_size, self.model_config["interpolation"])

    @cached_property
    def classifier(self) -> KernelClassifier | LinearClassifier:
        """The classifier of a probe: embeddings → logits."""
        return load_classifier(self.folder, self.head)

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder of a probe: its own ONNX file, the given module, or a registered embedder.

        Raises:
            RunError: If the run was trained on embeddings from a file, or needs a module that is not given.
        """
        config, has_network = self.model_config, self.folder.network.exists()
        if self.backbone is not None and (self.runtime == "torch" or not has_network):
            return module_embedder(self.path, config, self.backbone, self.device)
        if has_network:
            network = self.folder.verified(self.folder.network)
            return OnnxEmbedder(network, preprocessing_of_run(config), key=config["embedding_key"])
        if config["backbone"] in EMBEDDERS:
            made: Embedder = EMBEDDERS[config["backbone"]]()
            if made.key != config["embedding_key"]:
                raise RunError(
                    f"{self.path} was trained with embedder '{config['backbone']}' of key {config['embedding_key']}, "
                    f"but the registered one has key {made.key}. Register the same one, or train the run again."
                )
            return made
        if config["backbone"] == "embeddings":
            raise RunError(
                f"{self.path} was trained on embeddings from a file and has no network for images. Pass "
                f"embeddings of the same kind with {option('embeddings', 'FILE')}."
            )
        raise RunError(
            f"{self.path} was trained with an embedder or module of your own, '{config['backbone']}', and does not "
            f"contain its code. Pass {option('plugin', 'FILE')}, or in Python po.Run({str(self.path)!r}, "
            "backbone=module)."
        )

    @cached_property
    def predictor(self) -> Predictor:
        """Images → class scores."""
        if self.is_probe:
            return ProbePredictor(self.embedder, self.classifier)
        if self._takes_torch():
            made: Predictor = TORCH["predictor"](self)
            return made
        return OnnxPredictor(self.folder.verified(self.folder.network), self.model_config)

    def _takes_torch(self) -> bool:
        """Whether torch runs the network of a fine-tuned run."""
        if self.runtime == "onnx":
            return False
        is_wished = self.runtime == "torch" or self.backbone is not None or self.device not in (None, "cpu")
        return is_wished or not self.folder.network.exists() or trains_on_gpu() or self._head is not None

    def scores(
        self,
        table: LabelTable,
        *,
        embeddings: Embeddings | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Scores:
        """Scores N×C of a table's images, in the order of the model's classes.

        Args:
            table: The images.
            embeddings: Embeddings of the table's images, for a run that was trained on embeddings.
            progress: Called with the number of newly finished images.
        """
        if embeddings is not None:
            return self.scores_of_embeddings(embeddings)
        if self.is_probe:
            X = embed(table, self.embedder, progress=_counting(progress)).X
            return sigmoid(self.classifier.logits(X))
        images = read_ahead(partial(load_row, table, self.image_size), range(len(table)))
        result = np.empty((len(table), len(self.classes)))
        for row, scores in enumerate(self.predictor(images)):
            result[row] = scores
            if progress:
                progress(1)
        return result

    def scores_of_embeddings(self, embeddings: Embeddings | npt.ArrayLike) -> Scores:
        """Scores N×C of embeddings of the kind that the run was trained on."""
        return sigmoid(self.classifier.logits(self._checked(embeddings).X))

    def predict_embeddings(
        self, embeddings: Embeddings | npt.ArrayLike, names: Sequence[str], *, top: int | None = None
    ) -> list[Prediction]:
        """As :meth:`predict`, for embeddings in place of images.

        Args:
            embeddings: One row per item; an array is taken as embeddings of the network of the training.
            names: Names of the items.
            top: This many best tags, regardless of thresholds.
        """
        tagger = Tagger(self, top)
        return [tagger.tags(*row) for row in zip(names, self.scores_of_embeddings(embeddings), strict=True)]

    def _checked(self, embeddings: Embeddings | npt.ArrayLike) -> Embeddings:
        """Check that embeddings match those the run was trained on."""
        if not self.is_probe:
            raise RunError(f"{self.path} is a fine-tuned network, which takes images and not embeddings.")
        embeddings = Embeddings.of(embeddings)
        width, key = self.model_config["width"], self.model_config["embedding_key"]
        if embeddings.width != width:
            raise RunError(
                f"{self.path} was trained on embeddings of {width:,} numbers; these have {embeddings.width:,}."
            )
        if embeddings.key and key and embeddings.key != key:
            raise RunError(
                f"{self.path} was trained on embeddings of '{self.model_config['backbone']}' (key {key}); these are of "
                f"another network (key {embeddings.key})."
            )
        return embeddings

    def evaluate(
        self,
        table: LabelTable,
        *,
        embeddings: Embeddings | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Evaluation:
        """Metrics on a table whose images the run has not seen; unknown labels are never scored.

        Args:
            table: Images with their labels. Classes that the run does not know are ignored, with a warning.
            embeddings: Embeddings of these images, for a run that was trained on embeddings.
            progress: Called with the number of newly finished images.
        """
        require_table(table, "evaluate", "po.read('test.csv', images='photos/', blank='negative')")
        counts = dict(zip(table.classes, table.counts(POSITIVE).tolist(), strict=True))
        ignored = [f"'{name}' ({plural(counts[name], 'image')})" for name in counts if name not in set(self.classes)]
        if len(ignored) == len(counts):
            raise RunError(f"{table.source} has no class that the run knows: {and_more(ignored)}.")
        if ignored:
            logger.warning(f"{table.source}: classes that the run does not know are ignored: {and_more(ignored)}.")
        table = table.with_classes(self.classes)
        if not table.has_negatives:
            raise MetricError(
                f"{table.source} only lists tags. If they are complete, pass {option('blank', 'negative')}."
            )
        self._refuse_overlap(table)
        scores = self.scores(table, embeddings=embeddings, progress=progress)
        return evaluate(scores, table.states(), self.classes, self.thresholds)

    def _refuse_overlap(self, table: LabelTable) -> None:
        if not self.folder.holds_run:  # it came from the hub, without the names of its images
            logger.warning(f"{self.path} does not list its training images. Make sure that the test images differ.")
        else:
            refuse_learned(table, self.folder.read_images())

    def predict(
        self, images: ImageSource | Sequence[ImageSource], *, top: int | None = None, skip_broken: bool = False
    ) -> list[Prediction]:
        """Tags of images, best first: those that reach their threshold, or the ``top`` best.

        Args:
            images: Paths, encoded files as bytes, PIL images or arrays of pixels H×W×3; a mixture of them, one alone,
                or one array N×H×W×3.
            top: This many best tags, regardless of thresholds.
            skip_broken: Return a prediction with an ``error`` for an image that cannot be read, instead of raising.
        """
        return list(self.stream(images, top=top, skip_broken=skip_broken))

    def stream(
        self, images: ImageSource | Iterable[ImageSource], *, top: int | None = None, skip_broken: bool = False
    ) -> Iterator[Prediction]:
        """As :meth:`predict`, but one prediction at a time, for any number of images."""
        load_model_config(self.folder)  # check the run before reading any image
        several: Any = [images] if is_one(images) else images
        tagger = Tagger(self, top)
        for prediction in tagger(named(several)):
            if prediction.error and not skip_broken:
                mend = f"Repair it, or pass {option('skip_broken', True)}."
                raise ImageError(f"{prediction.image}: {prediction.error}. {mend}")
            yield prediction


def _counting(progress: Callable[[int], None] | None) -> Callable[[int, int], None] | None:
    """A callback that takes the total done, for one that takes the number newly done."""
    if progress is None:
        return None
    counted = 0

    def count(done: int, total: int) -> None:
        nonlocal counted
        progress(done - counted)
        counted = done

    return count
