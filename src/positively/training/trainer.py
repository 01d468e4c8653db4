"""The training loop: batches → logits → loss → weights, with a checkpoint after every epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch

from positively.data.loading import Batch, FeatureDataset, ImageDataset, TrainBatchSampler, make_loader
from positively.errors import InterruptedRunError, RunError
from positively.methods import Method, StepContext
from positively.models import Classifier
from positively.runs.folder import RunFolder
from positively.runs.scoring import Logits, score
from positively.training.config import NOT_PART_OF_THE_RESULT, TrainConfig
from positively.training.ema import Ema
from positively.training.holdout import criteria
from positively.training.optimizer import make_optimizer, make_schedule
from positively.training.progress import TrainingProgress, describe
from positively.training.runtime import Interruption, double_outputs, seed_torch

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Trainer:
    """One training under way.

    What learns is the classifier's ``trainable``, ``samples`` are features or images accordingly. All that a checkpoint
    has to hold is in :meth:`state`; every random draw is a function of the seed, the epoch and the step, so there is no
    generator to save. Without a ``folder`` nothing is saved on the way.
    """

    def __init__(
        self,
        fabric: Fabric,
        config: TrainConfig,
        method: Method,
        classifier: Classifier,
        samples: ImageDataset | FeatureDataset,
        aside: ImageDataset | FeatureDataset,
        folder: RunFolder | None = None,
        visible: bool = True,
    ) -> None:
        self.fabric, self.config, self.folder = fabric, config, folder
        self.samples, self.aside = samples, aside
        self.workers = config.workers or 0
        method.setup(samples.table)
        self.method = method.to(fabric.device)
        self.trainable = classifier.trainable
        self.visible = visible and fabric.is_global_zero
        self.order = TrainBatchSampler(
            len(samples), config.batch_size or 64, config.seed, fabric.global_rank, fabric.world_size
        )
        self.steps = len(self.order)
        epochs = config.epochs or 1
        self.stop = min(config.stop_epoch or epochs, epochs)
        optimizer = make_optimizer(self.trainable, config)
        self.schedule = make_schedule(optimizer, config, epochs * self.steps)
        self.network, self.optimizer = fabric.setup(self.trainable, optimizer)
        self.ema = Ema(self.trainable, config.ema) if config.ema else None
        self.epoch, self.step, self.rate = 0, 0, 0.0
        self.sums: dict[str, torch.Tensor] = {}
        self.history: list[dict[str, float]] = []

    def run(self) -> None:
        """Train to the end; the learner then holds the averaged weights, if there are any."""
        saved = time.monotonic()
        self.network.train()
        done = self.epoch * self.steps + self.step
        progress = TrainingProgress(self.stop * self.steps, done, self.visible)
        with Interruption() as interruption, progress, double_outputs(self.config.precision == "64-true"):
            while self.epoch < self.stop:
                self.order.epoch, self.order.skip = self.epoch, self.step
                for batch in make_loader(self.samples, self.order, self.workers):
                    self._learn(batch)
                    progress.step(self.order.batch_size)
                    if progress.is_due():
                        progress.show(f"epoch {self.epoch + 1}/{self.stop}", self._means(self.step))
                    if interruption.agreed(self.fabric):
                        self.save()
                        way_on = f" and --out {self.folder.path} --resume auto" if self.folder else ""
                        raise InterruptedRunError(
                            f"Stopped in epoch {self.epoch + 1}, after step {self.step} of {self.steps}. "
                            f"Go on with the same command{way_on}"
                        )
                    if time.monotonic() - saved > 60 * self.config.checkpoint_minutes:
                        self.save()
                        saved = time.monotonic()
                self._close_epoch(progress)
                saved = time.monotonic()
        if self.ema:
            self.ema.swap(self.trainable)

    def _learn(self, batch: Batch) -> None:
        """One step."""
        draw = StepContext(self.config.seed, self.epoch, self.step)
        self.rate = float(self.schedule.get_last_lr()[0])
        # Dropout and its like: also a function of the step alone, but another on each process.
        seed_torch(int(draw.generator().integers(2**31)) + self.fabric.global_rank)
        device = self.fabric.device
        inputs, states = batch.inputs.to(device), batch.states.to(device)
        parts = self.method.training_step(self.network, inputs, states, draw)
        self.fabric.backward(torch.stack(list(parts.values())).sum())
        if self.config.clip_norm:
            self.fabric.clip_gradients(self.network, self.optimizer, max_norm=self.config.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.schedule.step()
        if self.ema:
            self.ema.update(self.trainable)
        for name, value in parts.items():
            self.sums[name] = self.sums.get(name, 0.0) + value.detach()
        self.step += 1

    def _close_epoch(self, progress: TrainingProgress) -> None:
        """Write down how the epoch went, and save."""
        means = self._means(self.steps)
        if not all(math.isfinite(value) for value in means.values()):
            raise RunError(
                f"The loss is no longer a number in epoch {self.epoch + 1} ({describe(means)}). Lower --lr, pass "
                "--clip-norm 1, or take --precision 32-true or bf16-mixed; then start anew with another --out."
            )
        judged: dict[str, float] = {}
        if len(self.aside):
            logits = self.score(self.aside, averaged=True)
            judged = criteria(logits, self.aside.table.states()) | self.method.validation_metrics(
                torch.from_numpy(logits)
            )
        self.epoch, self.step, self.sums = self.epoch + 1, 0, {}
        speed = {"images_per_second": progress.images_per_second}
        self.history.append({"epoch": self.epoch, "lr": self.rate, **means, **judged, **speed})
        self.save()
        if self.folder and self.fabric.is_global_zero:
            self.folder.write_metrics(self.history)
        parts = describe({**means, **judged})
        progress.say(f"epoch {self.epoch}/{self.stop}: {parts}  {progress.images_per_second:.0f} img/s")

    def _means(self, steps: int) -> dict[str, float]:
        return {name: float(total) / steps for name, total in self.sums.items()}

    def score(self, samples: ImageDataset | FeatureDataset, averaged: bool = False) -> Logits:
        """Logits of samples, by the averaged weights if asked for (and if there are any)."""
        if averaged and self.ema:
            self.ema.swap(self.trainable)
        logits = score(
            self.network, samples, device=self.fabric.device, batch_size=self.order.batch_size, workers=self.workers
        )
        if averaged and self.ema:
            self.ema.swap(self.trainable)
        return logits

    def state(self) -> dict[str, Any]:
        """Everything a resumed run needs."""
        return {
            "epoch": self.epoch,
            "step": self.step,
            "sums": self.sums,
            "history": self.history,
            "trainable": self.trainable.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "ema": self.ema.state_dict() if self.ema else None,
            "precision": self.fabric.strategy.precision.state_dict(),
            "config": self._comparable(),
        }

    def _comparable(self) -> dict[str, Any]:
        settings = {name: v for name, v in asdict(self.config).items() if name not in NOT_PART_OF_THE_RESULT}
        return {**settings, "table": f"{self.samples.table!r} {self.samples.table.digest()}"}

    def save(self) -> None:
        """Write the checkpoint, on the first process."""
        if self.folder is None:
            return
        if self.fabric.is_global_zero:
            self.folder.save_checkpoint(self.state())
        self.fabric.barrier()

    def restore(self, speak: Callable[[str], None]) -> None:
        """Go on from the last checkpoint, if that is asked for and there is one."""
        saved = self.folder.load_checkpoint() if self.folder and self.config.resume == "auto" else None
        if self.folder is None or saved is None:
            return
        before, now = saved["config"], self._comparable()
        changed = [f"{name} {before.get(name)} (now {now[name]})" for name in now if before.get(name) != now[name]]
        if changed:
            raise RunError(
                f"{self.folder.path} was trained with other settings: {', '.join(changed)}. "
                "Pass the same ones, or another --out."
            )
        self.epoch, self.step = saved["epoch"], saved["step"]
        self.sums, self.history = saved["sums"], saved["history"]
        self.trainable.load_state_dict(saved["trainable"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.schedule.load_state_dict(saved["schedule"])
        self.fabric.strategy.precision.load_state_dict(saved["precision"])
        if self.ema:
            self.ema.load_state_dict(saved["ema"])
        if self.epoch < self.stop:
            speak(f"Going on from epoch {self.epoch + 1}, step {self.step + 1} of {self.steps}.")
