"""The run folder: all files of one training, each written atomically."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import os
import platform
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from positively.calibration import CalibratedScores, OutOfSample
from positively.errors import RunError, option
from positively.files import file_digest, foreign_files, refuse_foreign, write_json, write_text, write_with
from positively.labels import States
from positively.machine import gpu_names
from positively.manifest import Manifest
from positively.runs.locking import LOCK, lock_folder, make_folder

FORMAT = 3
"""Version of the layout of a run folder. Before 3, there was no manifest; config.json held digests of the weights."""


class RunFolder:
    """The files of a run: their names, and how they are written and read."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.environment = self.path / "environment.json"
        self.metrics = self.path / "metrics.csv"
        self.checkpoint = self.path / "checkpoint" / "last"
        self.weights = self.path / "model.safetensors"
        self.probe = self.path / "probe.safetensors"
        self.network = self.path / "model.onnx"
        self.model = self.path / "config.json"
        self.thresholds = self.path / "thresholds.json"
        self.calibration = self.path / "calibration.safetensors"
        self.out_of_sample = self.path / "out-of-sample.safetensors"
        self.images = self.path / "images.csv"
        self.card = self.path / "README.md"
        self.report = self.path / "report.html"
        self.evaluation = self.path / "evaluation.json"
        self.manifest = Manifest(self.path)
        self._lock: ExitStack | None = None
        self._made: list[Path] = []  # folders created for the run, its own first

    @classmethod
    def open(cls, out: str | Path | None, default: str | Path, resume: bool) -> RunFolder:
        """The folder to train in, locked until :meth:`close`: a new one, or an existing one to resume.

        Args:
            out: The folder, if the user named one.
            default: The folder otherwise, or the next ``<default>-<number>`` that is free.
            resume: Use an existing folder (by default the one with the highest number).

        Raises:
            RunError: If the folder cannot be created, is in use, or holds a run.
            FileError: If the folder holds other files.
        """
        path, made = make_folder(out, default, resume)
        folder = cls(path)
        folder._made = made
        try:
            folder.refuse_others(resume=True)  # before locking, which would leave a lock file in a foreign folder
            folder._lock = lock_folder(folder.path)
            folder.refuse_others(resume)
        except BaseException:
            folder.close()
            raise
        return folder

    def refuse_others(self, resume: bool) -> None:
        """Raise if the folder holds other files, or a run that is not resumed."""
        if not self.holds_run:
            refuse_foreign(self.path, _is_empty_folder, "DIR")
        elif not resume:
            raise RunError(
                f"{self.path} already holds a run. Pass {option('resume', 'auto')} to continue it, or choose another "
                f"folder with {option('out', 'DIR')}."
            )

    def close(self) -> None:
        """Unlock the folder. If it was created for this run and is empty, remove it and its new parents."""
        is_left_empty = bool(self._made) and not foreign_files(self.path, _is_empty_folder)
        if self._lock is not None:
            with suppress(OSError):  # Windows cannot remove an open file
                if is_left_empty:
                    (self.path / LOCK).unlink()
            self._lock.close()
            self._lock = None
        with suppress(OSError):  # not empty if another process uses it now
            for place in (self.checkpoint.parent, *self._made) if is_left_empty else ():
                if place.exists():
                    place.rmdir()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    @property
    def holds_run(self) -> bool:
        """Whether the folder holds a run. Other programs write a config.yaml too, but not both files."""
        return self.checkpoint.exists() or (self.config.exists() and self.environment.exists())

    @property
    def is_finished(self) -> bool:
        """Whether the training is finished."""
        return (self.probe.exists() or self.weights.exists()) and self.model.exists() and self.thresholds.exists()

    def finish(self) -> None:
        """Write the manifest of a finished training."""
        files = [self.config, self.environment, self.metrics, self.images, self.calibration, self.out_of_sample]
        files += [self.weights, self.probe, self.model, self.card]
        # The network of a fine-tuned run is written and recorded later.
        files += [self.network] if self.probe.exists() else []
        self.manifest.record(file for file in files if file.exists())

    def record(self, *files: Path) -> None:
        """Add files of the finished run to the manifest; files outside the folder are ignored."""
        own = [file for file in files if self.path.resolve() in (file.parent.resolve() / file.name).parents]
        if own and self.manifest.read() is not None:
            self.manifest.record(own)

    def verified(self, file: Path) -> Path:
        """Check a file of the run before it is read, if it exists.

        Raises:
            RunError: If the file has changed since it was written.
        """
        if not file.exists():
            return file
        name, digest = self.manifest.name(file), file_digest(file)
        listed = self.manifest.read()
        if listed is None:
            listed = {name: digest, **self._digests_of_old_format()}
        if listed.get(name) != digest:
            raise RunError(
                f"{file} was changed or damaged: its digest is not in {self.manifest.path}. Restore the file, or run "
                f"the command again that wrote it; train with {option('resume', 'auto')} is fast."
            )
        return file

    def _digests_of_old_format(self) -> dict[str, str]:
        try:
            config = json.loads(self.model.read_text(encoding="utf-8"))
            digests, classes = dict(config.get("digests", {})), hashlib.blake2b(json.dumps(config["classes"]).encode())
            is_old = config["format"] < 3 and digests.pop("classes", classes.hexdigest()) == classes.hexdigest()
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            is_old = False
        if not is_old:
            raise RunError(
                f"{self.manifest.path} is missing or damaged, so the files of the run cannot be verified. Train again "
                f"with {option('resume', 'auto')}, which is fast."
            )
        return digests

    def write_config(self, settings: Mapping[str, Any], learned_from: Mapping[str, Any] | None = None) -> None:
        """Write the effective configuration, in the form that --config takes, and the environment."""
        text = yaml.safe_dump({**settings, "out": str(self.path)}, sort_keys=False, allow_unicode=True)
        write_json(self.environment, {**environment(), **(learned_from or {})})
        write_text(self.config, text)

    def read_environment(self) -> dict[str, Any]:
        """The environment and the training data of the run; empty if it cannot be read."""
        try:
            return dict(json.loads(self.environment.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return {}

    def write_metrics(self, history: list[dict[str, float]]) -> None:
        """Write one row per epoch."""
        text = io.StringIO()
        names = list(dict.fromkeys(name for row in history for name in row))
        writer = csv.DictWriter(text, fieldnames=names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(history)
        write_text(self.metrics, text.getvalue())

    def write_images(self, hashes: dict[str, tuple[str, str]]) -> None:
        """Write the images the run learned from: name → (content hash, part)."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["image", "hash", "part"])
        writer.writerows([name, *entry] for name, entry in hashes.items())
        write_text(self.images, text.getvalue())

    def read_images(self) -> list[tuple[str, str]]:
        """Name and content hash of every image the run learned from; the hash is empty if unknown."""
        return [(row["image"], row["hash"]) for row in self._image_rows()]

    def read_image_names(self) -> list[str]:
        """Names of the images the run learned from, in order."""
        return [row["image"] for row in self._image_rows()]

    def _image_rows(self) -> list[dict[str, str]]:
        if not self.images.exists():
            raise RunError(f"{self.images} is missing: it lists the images the run learned from. Restore it.")
        with self.verified(self.images).open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def write_thresholds(self, classes: tuple[str, ...], thresholds: npt.NDArray[np.float64]) -> None:
        """Write one threshold per class; null for a class that is never predicted."""
        limits = [value if math.isfinite(value) else None for value in thresholds.tolist()]
        write_json(self.thresholds, dict(zip(classes, limits, strict=True)))

    def read_thresholds(self, classes: list[str]) -> npt.NDArray[np.float64]:
        """One threshold per class, in the order of ``classes``. Users may edit the file: its digest is not checked."""
        most = 1.0 if self.calibration.exists() else sys.float_info.max
        least = 0.0 if self.calibration.exists() else -most
        try:
            known = json.loads(self.thresholds.read_text(encoding="utf-8"))
            given = [known[name] for name in classes]
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"{self.thresholds} lacks the threshold of a class ({error}). Correct it, or train the run again."
            ) from None
        for name, value in zip(classes, given, strict=True):
            if value is not None and not (type(value) in (int, float) and least <= value <= most):
                raise RunError(
                    f"{self.thresholds}: the threshold of '{name}' is {str(value)[:40]}. It must be a number"
                    f"{' from 0 to 1' if most == 1 else ''}, or null for a class that is never predicted."
                )
        return np.array([math.inf if value is None else value for value in given], dtype=np.float64)

    def write_calibration(self, calibrated: Mapping[str, CalibratedScores]) -> None:
        """Write the calibration of each head."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        for head, found in calibrated.items():
            arrays |= found.to_arrays(head)
        write_with(self.calibration, lambda temporary: save_file(arrays, temporary))

    def read_calibration(self, head: str) -> CalibratedScores:
        """The calibration of a head."""
        if not self.calibration.exists():
            raise RunError(
                f"{self.path} has no probabilities: its method gives only scores. Train with "
                f"{option('method', 'auto')}."
            )
        try:
            return CalibratedScores.from_arrays(head, load_file(self.verified(self.calibration)))
        except (SafetensorError, KeyError):
            raise RunError(f"{self.calibration} is damaged, or lacks head '{head}'.") from None

    def write_out_of_sample(self, found: OutOfSample, states: States) -> None:
        """Write out-of-sample scores and the labels of the images, in the order of images.csv."""
        arrays: dict[str, npt.NDArray[Any]] = {
            "scores": np.ascontiguousarray(found.scores),
            "states": np.ascontiguousarray(states),
            **found.calibrated.to_arrays("calibrated"),
        }
        write_with(self.out_of_sample, lambda temporary: save_file(arrays, temporary))

    def read_out_of_sample(self) -> tuple[list[str], States, OutOfSample] | None:
        """Images of the run, their label states and out-of-sample scores, if stored."""
        if not self.out_of_sample.exists():
            return None
        try:
            arrays = load_file(self.verified(self.out_of_sample))
            found = OutOfSample(arrays["scores"], CalibratedScores.from_arrays("calibrated", arrays))
            states: States = arrays["states"]
        except (SafetensorError, KeyError):
            again = option("resume", "auto")
            raise RunError(
                f"{self.out_of_sample} is damaged, or of an earlier version. Train the run again; with {again} this is "
                "fast."
            ) from None
        return self.read_image_names()[: len(states)], states, found


def _is_empty_folder(path: Path) -> bool:
    """Whether a folder holds only empty folders, the lock, and partial files."""
    return path.is_dir() and not foreign_files(path, _is_empty_folder)


def environment() -> dict[str, Any]:
    """The machine and the packages of a training."""
    names = (
        "positively",
        "onnxruntime",
        "torch",
        "torchvision",
        "timm",
        "lightning-fabric",
        "numpy",
        "scipy",
        "Pillow",
    )
    return {
        "started": datetime.now().astimezone().isoformat(timespec="seconds"),
        "command": " ".join(sys.argv),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "gpus": list(gpu_names()),
        "packages": {name: number for name in names if (number := _version(name))},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
