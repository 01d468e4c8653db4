"""The run folder: everything one training produced, each file written whole."""

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
"""Version of the run folder's layout. Before 3 there was no manifest, and config.json held digests of the weights."""


class RunFolder:
    """Names of a run's files, and how they are written and read."""

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
        self._made: list[Path] = []  # folders that did not exist before, the run's own first

    @classmethod
    def open(cls, out: str | Path | None, default: str | Path, resume: bool) -> RunFolder:
        """Folder to train in: a new one, or (``resume``) the one to go on in. It is ours until :meth:`close`.

        Args:
            out: The folder, if the user named one.
            default: The folder otherwise, or the next ``<default>-<number>`` that is free.
            resume: Take the folder (by default the one with the highest number) with what is in it.

        Raises:
            RunError: If the folder cannot be made, is in use, or holds a run.
            FileError: If it holds other files.
        """
        path, made = make_folder(out, default, resume)
        folder = cls(path)
        folder._made = made
        try:
            folder.refuse_others(resume=True)  # no lock is left among somebody else's files
            folder._lock = lock_folder(folder.path)
            folder.refuse_others(resume)
        except BaseException:
            folder.close()
            raise
        return folder

    def refuse_others(self, resume: bool) -> None:
        """Raise if the folder holds other files, or a run that is not to be resumed."""
        if not self.holds_run:
            refuse_foreign(self.path, _is_empty_folder, "DIR")
        elif not resume:
            raise RunError(
                f"{self.path} already holds a run. Pass {option('resume', 'auto')} to go on with it, or another "
                f"folder with {option('out', 'DIR')}."
            )

    def close(self) -> None:
        """Unlock the folder, and remove it, with the parents made for it, if this start made it and it is empty."""
        is_left_empty = bool(self._made) and not foreign_files(self.path, _is_empty_folder)
        if self._lock is not None:
            with suppress(OSError):  # Windows removes no file that is open; unlocking does
                if is_left_empty:
                    (self.path / LOCK).unlink()
            self._lock.close()
            self._lock = None
        with suppress(OSError):  # another process may have come in meanwhile: then it stays
            for place in (self.checkpoint.parent, *self._made) if is_left_empty else ():
                if place.exists():
                    place.rmdir()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    @property
    def holds_run(self) -> bool:
        """Whether there is a run: other programs have a config.yaml too; only a run has both of these."""
        return self.checkpoint.exists() or (self.config.exists() and self.environment.exists())

    @property
    def is_finished(self) -> bool:
        """Whether the run has a model to use."""
        return (self.probe.exists() or self.weights.exists()) and self.model.exists() and self.thresholds.exists()

    def finish(self) -> None:
        """Write the manifest of what a training wrote, which says that the run is finished."""
        files = [self.config, self.environment, self.metrics, self.images, self.calibration, self.out_of_sample]
        files += [self.weights, self.probe, self.model, self.card]
        # The network of a fine-tuned run is written, and recorded, later.
        files += [self.network] if self.probe.exists() else []
        self.manifest.record(file for file in files if file.exists())

    def record(self, *files: Path) -> None:
        """Add files to the manifest that were written into the finished run; any others are passed over."""
        own = [file for file in files if self.path.resolve() in (file.parent.resolve() / file.name).parents]
        if own and self.manifest.read() is not None:
            self.manifest.record(own)

    def verified(self, file: Path) -> Path:
        """A file of the run that is about to be read, or is not there.

        Raises:
            RunError: If it is not the file that was written.
        """
        if not file.exists():
            return file
        name, digest = self.manifest.name(file), file_digest(file)
        listed = self.manifest.read()
        if listed is None:
            listed = {name: digest, **self._digests_of_old_format()}
        if listed.get(name) != digest:
            raise RunError(
                f"{file} is damaged, was changed, or was not written by positively: its digest is not in "
                f"{self.manifest.path}. Restore the file, or repeat the command that wrote it; train with "
                f"{option('resume', 'auto')} is quick."
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
                f"{self.manifest.path} is missing or damaged, so that the files of the run cannot be verified. Train "
                f"again with {option('resume', 'auto')}, which is quick."
            )
        return digests

    def write_config(self, settings: Mapping[str, Any], learned_from: Mapping[str, Any] | None = None) -> None:
        """Write the whole effective configuration, as the option ``config`` takes it, and what it ran on."""
        text = yaml.safe_dump({**settings, "out": str(self.path)}, sort_keys=False, allow_unicode=True)
        write_json(self.environment, {**environment(), **(learned_from or {})})
        write_text(self.config, text)

    def read_environment(self) -> dict[str, Any]:
        """What the run ran on, and learned from; empty if it cannot be read."""
        try:
            return dict(json.loads(self.environment.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return {}

    def write_metrics(self, history: list[dict[str, float]]) -> None:
        """Write one row an epoch."""
        text = io.StringIO()
        names = list(dict.fromkeys(name for row in history for name in row))
        writer = csv.DictWriter(text, fieldnames=names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(history)
        write_text(self.metrics, text.getvalue())

    def write_images(self, hashes: dict[str, tuple[str, str]]) -> None:
        """Write which images the run learned from: name → (content hash, part)."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["image", "hash", "part"])
        writer.writerows([name, *entry] for name, entry in hashes.items())
        write_text(self.images, text.getvalue())

    def read_images(self) -> list[tuple[str, str]]:
        """Name and content hash of every image the run learned from; the hash is empty where only its name is known."""
        return [(row["image"], row["hash"]) for row in self._image_rows()]

    def read_image_names(self) -> list[str]:
        """Names of the images the run learned from, in order; copies have one hash and several names."""
        return [row["image"] for row in self._image_rows()]

    def _image_rows(self) -> list[dict[str, str]]:
        if not self.images.exists():
            raise RunError(f"{self.images} is missing: it says which images the run learned from. Restore it.")
        with self.verified(self.images).open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def write_thresholds(self, classes: tuple[str, ...], thresholds: npt.NDArray[np.float64]) -> None:
        """Write one threshold a class; null for a class that is never predicted."""
        limits = [value if math.isfinite(value) else None for value in thresholds.tolist()]
        write_json(self.thresholds, dict(zip(classes, limits, strict=True)))

    def read_thresholds(self, classes: list[str]) -> npt.NDArray[np.float64]:
        """One threshold a class, in the order of ``classes``. The file may be edited, so that no digest guards it."""
        most = 1.0 if self.calibration.exists() else sys.float_info.max
        least = 0.0 if self.calibration.exists() else -most
        try:
            known = json.loads(self.thresholds.read_text(encoding="utf-8"))
            given = [known[name] for name in classes]
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"{self.thresholds} does not give each class a threshold ({error}). Correct it, or train the run again."
            ) from None
        for name, value in zip(classes, given, strict=True):
            if value is not None and not (type(value) in (int, float) and least <= value <= most):
                raise RunError(
                    f"{self.thresholds}: the threshold of '{name}' is {str(value)[:40]}. It is a number"
                    f"{' from 0 to 1' if most == 1 else ''}, or null for a class that is never predicted."
                )
        return np.array([math.inf if value is None else value for value in given], dtype=np.float64)

    def write_calibration(self, calibrated: Mapping[str, CalibratedScores]) -> None:
        """Write what scores mean, by head."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        for head, found in calibrated.items():
            arrays |= found.to_arrays(head)
        write_with(self.calibration, lambda temporary: save_file(arrays, temporary))

    def read_calibration(self, head: str) -> CalibratedScores:
        """What the scores of a head mean."""
        if not self.calibration.exists():
            raise RunError(
                f"{self.path} has no probabilities: its method gives scores only. Train with "
                f"{option('method', 'auto')}."
            )
        try:
            return CalibratedScores.from_arrays(head, load_file(self.verified(self.calibration)))
        except (SafetensorError, KeyError):
            raise RunError(f"{self.calibration} is damaged, or has nothing about head '{head}'.") from None

    def write_out_of_sample(self, found: OutOfSample, states: States) -> None:
        """Write scores by labels that did not shape them, and these labels, in the order of the images' file."""
        arrays: dict[str, npt.NDArray[Any]] = {
            "scores": np.ascontiguousarray(found.scores),
            "states": np.ascontiguousarray(states),
            **found.calibrated.to_arrays("calibrated"),
        }
        write_with(self.out_of_sample, lambda temporary: save_file(arrays, temporary))

    def read_out_of_sample(self) -> tuple[list[str], States, OutOfSample] | None:
        """Images of the run, their label states and out-of-sample scores, if it has any."""
        if not self.out_of_sample.exists():
            return None
        try:
            arrays = load_file(self.verified(self.out_of_sample))
            found = OutOfSample(arrays["scores"], CalibratedScores.from_arrays("calibrated", arrays))
            states: States = arrays["states"]
        except (SafetensorError, KeyError):
            again = option("resume", "auto")
            raise RunError(
                f"{self.out_of_sample} is damaged, or of an earlier version. Train the run again, with {again} it is "
                "quick."
            ) from None
        return self.read_image_names()[: len(states)], states, found


def _is_empty_folder(path: Path) -> bool:
    """Whether there is nothing in a folder but empty folders, the lock, and what a kill left half written."""
    return path.is_dir() and not foreign_files(path, _is_empty_folder)


def environment() -> dict[str, Any]:
    """What a run ran on."""
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
