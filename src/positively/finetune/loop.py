"""The training loop: batches, loss, optimizer steps, and a checkpoint after every epoch. It does no file handling."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from timm.utils.model_ema import ModelEmaV3
from torch import Tensor, nn

from positively.config import TrainConfig
from positively.distributed import agree, any_process, broadcast
from positively.errors import ConfigError, DivergedError, InterruptedRunError, RunError, option
from positively.finetune.embedding import Embedding, Pool, as_weights
from positively.finetune.holdout import CRITERION, criteria, has_stalled
from positively.finetune.identity import training_identity
from positively.finetune.loading import (
    Batch,
    FeatureDataset,
    ImageDataset,
    SequentialBatchSampler,
    TrainBatchSampler,
    make_loader,
)
from positively.finetune.methods import Method, StepContext
from positively.finetune.optimizer import make_optimizer, make_schedule
from positively.finetune.progress import TrainingProgress, describe
from positively.finetune.runtime import Interruption, double_outputs, seed_torch, synchronize_batchnorm
from positively.finetune.scoring import Logits, score
from positively.finetune.teacher import start_solved
from positively.logs import logger
from positively.models import Trainable
from positively.models.heads import Pooling, pool_positions

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Dataset = ImageDataset | FeatureDataset
clock = time.monotonic


class CheckpointStore(Protocol):
    """Storage for checkpoints and metrics, implemented by a run folder."""

    path: Path

    def load_checkpoint(self) -> dict[str, Any] | None:
        """Load the last checkpoint, or None if there is none."""

    def save_checkpoint(self, state: dict[str, Any]) -> None:
        """Replace the last checkpoint."""

    def write_metrics(self, history: list[dict[str, float]]) -> None:
        """Write the metrics, one row per epoch."""


class TrainingModule(nn.Module):
    """Network and method as one module, so that one training step is one forward pass of the wrapped module.

    Distributed data parallel and mixed precision then work for methods that call the network several times, and the
    parameters of the method are trained together with those of the network.
    """

    def __init__(self, trainable: Trainable, method: Method) -> None:
        super().__init__()
        self.trainable, self.method = trainable, method

    def forward(
        self, inputs: Tensor, states: Tensor | None = None, step: StepContext | None = None
    ) -> Tensor | dict[str, Tensor]:
        """Return the logits of the inputs or, if label states are given, the parts of the loss."""
        if states is None or step is None:
            logits: Tensor = self.trainable(inputs)
            return logits
        parts = self.method.training_step(self.trainable, inputs, states, step)
        for name, value in parts.items():
            if not isinstance(value, Tensor) or value.numel() != 1:
                found = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
                raise ConfigError(
                    f"{type(self.method).__name__}: part '{name}' of the loss must be a scalar, not {found}."
                )
        # Distributed training fails if a parameter of the method takes no part in a step.
        own = [0.0 * parameter.sum() for parameter in self.method.parameters() if parameter.requires_grad]
        name = next(iter(parts))
        return {**parts, name: parts[name] + torch.stack(own).sum()} if own else parts


class Trainer:
    """One training in progress.

    `state` returns everything that a checkpoint holds. Every random draw is a function of the seed, the epoch and the
    step, so no generator state is saved. The trainer is also the `TrainingContext` that methods see.

    Args:
        fabric: Running Lightning Fabric instance.
        config: Resolved configuration.
        method: Training method.
        trainable: Trainable part of the network.
        dataset: Training images or stored embeddings.
        holdout: Held-out images or stored embeddings.
        store: Where checkpoints are saved; None saves nothing.
        verbose: Whether to log progress.
        complete: Label states of the held-out images for ``holdout_map``, shape (N, C), if a benchmark knows them.
    """

    def __init__(
        self,
        fabric: Fabric,
        config: TrainConfig,
        method: Method,
        trainable: Trainable,
        dataset: Dataset,
        holdout: Dataset,
        store: CheckpointStore | None = None,
        verbose: bool = True,
        complete: npt.NDArray[np.int8] | None = None,
    ) -> None:
        self.fabric, self.config, self.store, self.verbose = fabric, config, store, verbose
        self.complete = complete
        self.dataset, self.holdout, self.table = dataset, holdout, dataset.table
        self.method, self.trainable, self.seed = method, trainable, config.seed
        trainable.to(fabric.device)
        self.sampler = TrainBatchSampler(
            len(dataset), config.batch_size or 64, config.seed, fabric.global_rank, fabric.world_size
        )
        self.epoch, self.step, self.rate = 0, 0, 0.0
        self.ema: ModelEmaV3 | None = None
        if config.start == "solved":
            start_solved(self, method.uses_negatives)
        method.setup(self)
        if fabric.world_size > 1:
            synchronize_batchnorm(trainable, fabric.device, can_freeze=config.depth != "probe")
        self.steps = len(self.sampler)
        self.stop = min(config.stop_epoch or self.epochs, self.epochs)
        module = TrainingModule(trainable, method)
        optimizer = make_optimizer(module, config)
        self.schedule = make_schedule(optimizer, config, self.epochs * self.steps)
        self.module, self.optimizer = fabric.setup(module, optimizer)
        # The decay after t steps is min(decay, (1 + t) / (10 + t)), so that a short run does not average its beginning.
        if config.ema:
            self.ema = ModelEmaV3(trainable, config.ema, use_warmup=True, warmup_gamma=9.0, warmup_power=1.0)
        self.sums: dict[str, Tensor] = {}
        self.history: list[dict[str, float]] = []
        self.best: dict[str, Any] | None = None

    # TrainingContext, as seen by methods.

    @property
    def epochs(self) -> int:
        """Number of epochs of the schedule."""
        return self.config.epochs or 1

    @property
    def inputs(self) -> Any:
        """Stored embeddings of the training images; None if images are read from disk."""
        return None if isinstance(self.dataset, ImageDataset) else self.dataset.inputs()

    @property
    def device(self) -> torch.device:
        """Device of the network."""
        device: torch.device = self.fabric.device
        return device

    def score(self, dataset: Dataset | None = None) -> Logits:
        """Logits of a dataset (default: the training set), by the averaged weights if EMA is on."""
        with self._averaged_weights():
            return score(
                self.module,
                self.dataset if dataset is None else dataset,
                device=self.device,
                batch_size=self.sampler.batch_size,
                workers=self.config.workers or 0,
            )

    def embed(self, dataset: Dataset | None = None, pool: Pool | None = None) -> npt.NDArray[np.float32]:
        """Pooled embeddings of a dataset, by the averaged weights if EMA is on.

        Args:
            dataset: Images or stored embeddings; default: the training set.
            pool: Function from a feature map (B, C, H, W) to (B, …). Default: the pooling of the head, shape (B, C);
                the mean for heads that use positions.

        Returns:
            Embeddings, shape (N, …).
        """
        chosen = self.dataset if dataset is None else dataset
        pooling: Pooling = getattr(self.trainable.head, "pooling", "average")
        network = Embedding(self.trainable, pool or partial(pool_positions, pooling=pooling))
        with self._averaged_weights():
            shape = network.pool(self.sample_map()).shape[1:]
            flat = score(
                nn.Sequential(network, nn.Flatten()),
                chosen,
                device=self.device,
                batch_size=self.sampler.batch_size,
                workers=self.config.workers or 0,
                columns=math.prod(shape),
            )
        return flat.reshape(len(chosen), *shape)

    @torch.inference_mode()
    def sample_map(self) -> Tensor:
        """Feature map of the first training image, shape (1, C, H, W)."""
        batch = next(iter(make_loader(self.dataset, SequentialBatchSampler(1, 1), 0)))
        was_training = self.trainable.training
        found = self.trainable.eval().feature_map(as_weights(batch.inputs.to(self.device), self.trainable))
        self.trainable.train(was_training)
        return found

    # Training.

    def run(self) -> None:
        """Train to the last epoch, then load the final weights: best epoch or last, averaged if EMA is on."""
        self.module.train()
        done = self.epoch * self.steps + self.step
        shown = self.verbose and self.fabric.is_global_zero
        progress = TrainingProgress(self.stop * self.steps, done, shown)
        with Interruption() as interruption, progress, double_outputs(self.config.dtype == "float64"):
            while self.epoch < self.stop:
                self._run_epoch(interruption, progress)
                self._close_epoch(progress)
        self.trainable.load_state_dict(self._result() if self.best is None else self.best["weights"])

    @property
    def chosen_epoch(self) -> int:
        """Epoch whose weights are used."""
        return self.epoch if self.best is None else int(self.best["epoch"])

    def _result(self) -> dict[str, Tensor]:
        """Current weights, averaged if EMA is on."""
        state: dict[str, Tensor] = (self.ema.module if self.ema else self.trainable).state_dict()
        return state

    def _run_epoch(self, interruption: Interruption, progress: TrainingProgress) -> None:
        self.sampler.epoch, self.sampler.skip = self.epoch, self.step
        saved = clock()
        batches = iter(make_loader(self.dataset, self.sampler, self.config.workers or 0))
        # If one process cannot read an image, all of them stop.
        while (batch := agree(partial(next, batches, None))) is not None:
            self._learn(batch)
            progress.step(self.sampler.batch_size, f"{self.epoch + 1}/{self.stop}")
            # Only the first process checks the clock, so that all processes save after the same step.
            is_due = self.fabric.is_global_zero and clock() - saved > 60 * self.config.checkpoint_minutes
            stop, save = any_process(interruption.asked, is_due)
            if stop:
                self.save()
                raise InterruptedRunError(f"Stopped in epoch {self.epoch + 1}, after step {self.step} of {self.steps}.")
            if save:
                self.save()
                saved = clock()

    def _learn(self, batch: Batch) -> None:
        """Run one optimizer step."""
        batch = batch.to(self.device, non_blocking=True)
        step = StepContext(self.config.seed, self.epoch, self.step, batch.rows)
        self.rate = float(self.schedule.get_last_lr()[0])
        # Dropout also depends on the step only, with a different seed on each process.
        seed_torch(int(step.generator("dropout").integers(2**31)) + self.fabric.global_rank)
        parts: dict[str, Tensor] = self.module(batch.inputs, batch.states, step)
        self.fabric.backward(torch.stack(list(parts.values())).sum())
        if self.config.clip_norm:
            self.fabric.clip_gradients(self.module, self.optimizer, max_norm=self.config.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.schedule.step()
        self.step += 1
        if self.ema:
            self.ema.update(self.trainable, step=self.epoch * self.steps + self.step + 2)
        for name, value in parts.items():
            self.sums[name] = self.sums.get(name, 0.0) + value.detach()

    def _close_epoch(self, progress: TrainingProgress) -> None:
        """Compute and record the metrics of the epoch, and save a checkpoint."""
        means = self._means(self.steps)
        if any(any_process(not all(math.isfinite(value) for value in means.values()))):
            raise DivergedError(
                f"The loss is not finite in epoch {self.epoch + 1} ({describe(means)}). Lower {option('lr')}, "
                f"pass {option('clip_norm', 1)}, or use {option('dtype', 'float32')} or 'bfloat16'. Then start "
                f"again with another {option('out')}."
            )
        self.method.on_epoch_end(self)
        judged: dict[str, float] = {}
        if len(self.holdout):
            logits = self.score(self.holdout)
            judged = criteria(logits, self.holdout.table.states(), self.complete)
            self._remember(judged.get(CRITERION, math.inf))
            judged |= self.method.validation_metrics(torch.from_numpy(logits))
        self.epoch, self.step, self.sums = self.epoch + 1, 0, {}
        speed = {"images_per_second": progress.images_per_second}
        self.history.append({"epoch": self.epoch, "lr": self.rate, **means, **judged, **speed})
        self._stop_if_stalled()
        self.save()
        if self.store and self.fabric.is_global_zero:
            self.store.write_metrics(self.history)
        if self.verbose and (self.epoch == self.stop or progress.is_epoch_due()):
            logger.info(f"epoch {self.epoch}/{self.stop}: {describe({**means, **judged})}  {progress.pace()}")

    def _remember(self, criterion: float) -> None:
        """Keep a copy of the weights if this epoch is the best so far on the held-out images."""
        if self.config.restore_best and criterion < (math.inf if self.best is None else self.best["criterion"]):
            weights = {name: tensor.clone() for name, tensor in self._result().items()}
            self.best = {"epoch": self.epoch + 1, "criterion": criterion, "weights": weights}

    def _stop_if_stalled(self) -> None:
        """End the training after this epoch if the held-out criterion has stalled; all processes decide together."""
        if any(any_process(has_stalled(self.history, self.config.patience or 0))) and self.epoch < self.stop:
            self.stop = self.epoch
            if self.verbose:
                logger.info(f"Early stopping after epoch {self.epoch} of {self.epochs}: no improvement on the holdout.")

    def _means(self, steps: int) -> dict[str, float]:
        return {name: float(total) / steps for name, total in self.sums.items()}

    @contextmanager
    def _averaged_weights(self) -> Iterator[None]:
        """Use the averaged weights inside the block."""
        if self.ema is None or self.epoch >= self.stop:  # after the last epoch the network holds them already
            yield
            return
        current = {name: tensor.clone() for name, tensor in self.trainable.state_dict().items()}
        self.trainable.load_state_dict(self.ema.module.state_dict())
        try:
            yield
        finally:
            self.trainable.load_state_dict(current)

    # Checkpoints.

    def state(self) -> dict[str, Any]:
        """State dict of the training, for checkpoints."""
        return {
            "epoch": self.epoch,
            "step": self.step,
            "sums": self.sums,
            "history": self.history,
            "trainable": self.trainable.state_dict(),
            "method": self.method.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "ema": self.ema.module.state_dict() if self.ema else None,
            "best": self.best,
            "precision": self.fabric.strategy.precision.state_dict(),
            "identity": self._identity(),
        }

    def _identity(self) -> dict[str, Any]:
        return {**training_identity(self.config), "table": f"{len(self.table)} images, {self.table.digest()}"}

    def save(self) -> None:
        """Save a checkpoint, on the first process."""
        if self.store is None:
            return
        agree(partial(self.store.save_checkpoint, self.state()) if self.fabric.is_global_zero else lambda: None)

    def restore(self) -> bool:
        """Load the last checkpoint if ``resume`` is 'auto'. Returns whether there was one."""
        saved = agree(self.store.load_checkpoint) if self.store and self.config.resume == "auto" else None
        position = None if saved is None else (saved["epoch"], saved["step"])
        if any(any_process(position != broadcast(position))):
            raise RunError(
                "The processes see different checkpoints. Put the run folder on a disk that all of them share."
            )
        if self.store is None or saved is None:
            return False
        before, now = saved.get("identity", {}), self._identity()
        changed = [
            f"{name} {before.get(name, 'default')} (now {now.get(name, 'default')})"
            for name in [*sorted({*before, *now} - {"table"}), "table"]
            if before.get(name) != now.get(name)
        ]
        if changed:
            raise RunError(
                f"{self.store.path} was trained with other settings: {', '.join(changed)}. Pass the same settings, or "
                f"another {option('out')}."
            )
        self.epoch, self.step = saved["epoch"], saved["step"]
        self.sums, self.history, self.best = saved["sums"], saved["history"], saved["best"]
        self._stop_if_stalled()
        self.trainable.load_state_dict(saved["trainable"])
        self.method.load_state_dict(saved["method"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.schedule.load_state_dict(saved["schedule"])
        self.fabric.strategy.precision.load_state_dict(saved["precision"])
        if self.ema:
            self.ema.module.load_state_dict(saved["ema"])
        if self.epoch < self.stop:
            logger.info(f"Resuming at epoch {self.epoch + 1}, step {self.step + 1} of {self.steps}.")
        return True
