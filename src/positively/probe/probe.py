"""The probe: a classifier with out-of-sample scores and probabilities, fitted in closed form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import scipy

from positively.calibration import (
    FEWEST_POSITIVES,
    Calibration,
    Summary,
    calibrate_summary,
    join,
    rescale_loo,
    summarize,
    summarized_pu_average_precision,
)
from positively.embedding.rows import FeatureRows
from positively.errors import ConfigError, LabelError
from positively.labels import POSITIVE, UNKNOWN, check_states
from positively.probe.choice import Criterion, choose_penalty
from positively.probe.labels import ProbeLabels
from positively.probe.linalg import as_rows, row_blocks
from positively.probe.ridge import Ridge
from positively.probe.soft import (
    ONE_STEP,
    SOFT_STEPS,
    Fold,
    SelfTraining,
    fold_scores,
    impute,
    imputing_step,
    level_of,
    soft_folds,
    soft_part,
)
from positively.probe.solution import Solution
from positively.randomness import random_stream

Classes = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]

LOGIT_ASINH_SCALE = 2.0
"""Standard deviations beyond which scores grow logarithmically; this makes probabilities more accurate, especially
high ones."""
# Images that positives are ranked among to choose λ; more do not change the choice.
_JUDGED_IMAGES = 20_000
# Known positives of each class that are ranked among them.
_JUDGED_POSITIVES = 50
# With more known positives in the median class, a soft step did not help in any experiment.
_MANY_POSITIVES = 150
MOST_SCORES = 2**26
"""Images × classes up to which out-of-sample scores are kept in memory."""
# Minimum ratio of negative to positive label frequency for a fit to the known labels only: in the median class, and in
# each class.
_OFTEN, _SELDOM = 0.5, 0.05
# Minimum relative gain of the criterion for a soft step. Smaller gains are noise, and with one tag per image they cost
# 0.2 points of mAP (parts of the train split of coco-mini).
_LEAST_GAIN = 0.005


class Probe:
    """A classifier on embeddings, fitted in closed form by :func:`positively.probe.fit`.

    Scores are least-squares estimates of P(known | image); with a soft step they are larger. Only their order within a
    class matters. Probabilities are P(tag | image).
    """

    def __init__(
        self,
        labels: ProbeLabels,
        kernel: Ridge,
        linear: Ridge | None = None,
        *,
        step: SelfTraining | None = None,
        penalty: float | None = None,
        criterion: Criterion = "pu_average_precision",
        seed: int = 0,
    ) -> None:
        self.labels, self.seed = labels, seed
        self.kernel = Solution(kernel)
        self.linear = None if linear is None else Solution(linear)
        self._asked_step, self._asked_penalty, self._criterion = step, penalty, criterion
        self.renew()

    # What is found.

    @property
    def calibration(self) -> Calibration:
        """Calibration of the scores, with the estimated number of positives of each class."""
        return self.kernel.calibration

    @property
    def loo_scores(self) -> Scores:
        """Out-of-sample scores N×C of the table's images.

        Exact leave-one-out scores after one step. After a soft step, where leave-one-out would leak, they come from
        label folds.
        """
        return np.concatenate([self.held_out_scores(classes) for classes in self.labels.blocks(self._arrays)], axis=1)

    def held_out_scores(self, classes: Classes) -> Scores:
        """:attr:`loo_scores` of some classes, for tables that do not fit into memory."""
        stale = classes[np.isin(classes, sorted(self._stale))]
        if self.kernel.held_out is None:
            return self._held_out(self.kernel, classes)
        if len(stale):
            self.kernel.held_out[:, stale] = self._held_out(self.kernel, stale)
            self._stale -= set(stale.tolist())
        return self.kernel.held_out[:, classes]

    def first_scores(self, classes: Classes) -> Scores:
        """Leave-one-out scores of some classes after the first step, with known positives rescaled.

        They rank unknown labels better than the scores of a soft step. ``first`` is their calibration.
        """
        if self.step == ONE_STEP:
            scores = self.held_out_scores(classes)
        else:
            moments, hard = self._first_moments[:, classes], self._hard(classes)
            scores = self.kernel.ridge.held_out_scores(moments, hard, self.kernel.penalty)
        return self._levelled(scores, classes).astype(np.float32)

    def set_penalty(self, penalty: float) -> None:
        """Set λ; the calibration must then be replaced too."""
        self.kernel.penalty, self.kernel.held_out = penalty, None

    def scores(self, features: FeatureRows) -> Scores:
        """Scores B×C of new images with embeddings B×D (B×(1+P)×D if the probe was fitted with parts)."""
        return self.scores_at(features, [self.kernel.penalty])[0]

    def scores_at(self, features: FeatureRows, penalties: Sequence[float]) -> list[Scores]:
        """:meth:`scores` for several λ; the expensive part is computed once."""
        rows, ridge = as_rows(features), self.kernel.ridge
        shape, fitted = np.shape(rows[slice(0, 1)]), np.shape(ridge.features[slice(0, 1)])
        if len(shape) != len(fitted) or shape[-1] != fitted[-1]:
            expected = " × ".join(["images", *("parts" for _ in fitted[2:]), str(fitted[-1])])
            raise ConfigError(f"Embeddings of new images must be an array of {expected}, as in the fit.")
        solutions = [
            ridge.solution(self.kernel.moments, self.step.factor * one).astype(np.float32) for one in penalties
        ]
        found = [np.empty((len(rows), one.shape[1]), dtype=np.float32) for one in solutions]
        for part in row_blocks(len(rows)):
            coordinates = ridge.basis.coordinates(rows[part])
            for result, solution in zip(found, solutions, strict=True):
                scores = coordinates @ solution[:-1] + solution[-1]
                result[part] = scores[:, 0] + scores[:, 1:].max(axis=1) if ridge.has_parts else scores
        return found

    def probabilities(self, features: FeatureRows) -> npt.NDArray[np.float64]:
        """Probabilities B×C of each tag for new images."""
        return self.calibration.probabilities(self.scores(features))

    # What is changed.

    def update(self, rows: npt.ArrayLike, states: npt.ArrayLike, *, reviewed: bool = True) -> Classes:
        """Change the labels of some images, at the cost of one matrix product for each changed class.

        Landmarks, λ, label frequencies and calibration do not change; :meth:`renew` estimates them again. Until then, a
        class that had too few positives has no reliable probabilities.

        Args:
            rows: (K,) rows of the table.
            states: K×C new states of these rows.
            reviewed: Whether the pairs were selected by their score, as in a review. Such labels are not known at
                random, which the calibration takes into account.

        Returns:
            Indices of the changed classes.
        """
        chosen, new = np.atleast_1d(np.asarray(rows, dtype=np.int64)), np.atleast_2d(check_states(states))
        if new.shape != (len(chosen), self.labels.shape[1]):
            raise LabelError(
                f"New states must be rows × classes, here {len(chosen)}×{self.labels.shape[1]}, not {new.shape}."
            )
        changed = self.labels.change(chosen, new, reviewed)
        if len(changed):
            self._solve(changed)
            self._stale |= set(changed.tolist())
        return changed

    def renew(self) -> None:
        """Choose λ and the number of steps, and calibrate again, with the current labels."""
        for solution in self._solutions():
            solution.moments = np.concatenate(
                [solution.ridge.moments(self._hard(classes)) for classes in self.labels.blocks()], axis=1
            )
            solution.penalty = self._choose_penalty(solution)
        self.step = ONE_STEP
        self._calibrate()
        self.first, self.first_summary = self.kernel.calibration, self.kernel.summary
        """Calibration and summary of the scores of the first step."""
        self._first_moments = self.kernel.moments
        self.step = self._choose_step() if self._asked_step is None else self._asked_step
        if self.step != ONE_STEP:
            for solution in self._solutions():
                solution.moments = solution.moments.copy()
            self._solve(np.arange(self.labels.shape[1]), first=False)
            self._calibrate()

    def _solutions(self) -> list[Solution]:
        return [self.kernel] if self.linear is None else [self.kernel, self.linear]

    def _hard(self, classes: Classes) -> Scores:
        return self.labels.targets(classes)

    def _choose_penalty(self, solution: Solution) -> float:
        """Choose λ on all images or, for large tables, on a sample with some positives of every class."""
        if self._asked_penalty is not None:
            return self._asked_penalty
        rows, reference = self._judged()
        is_all = len(rows) == self.labels.shape[0]
        ridge = solution.ridge if is_all else solution.ridge.part(rows)
        blocks = list(self.labels.blocks())
        states = np.concatenate([self.labels.states(classes)[rows] for classes in blocks], axis=1)
        hard = np.concatenate([self.labels.targets(classes)[rows] for classes in blocks], axis=1)
        together = np.concatenate([self._together(classes)[rows] for classes in blocks], axis=1)
        known = np.concatenate([self._support(classes).sum(axis=0) for classes in blocks])

        def held_out(penalty: float) -> npt.NDArray[np.floating]:
            scores = ridge.held_out_scores(solution.moments, hard, penalty)
            return rescale_loo(scores, states, known, together)

        positives = (states == POSITIVE) & (known > together) & self._counted[rows][:, None]
        share = reference.sum() / max(self._counted.sum(), 1)
        return choose_penalty(held_out, positives, reference, share, criterion=self._criterion)

    def _judged(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Rows that choose λ, and flags of those that positives are ranked among."""
        count, groups = self.labels.shape[0], self.kernel.ridge.groups
        counted = self._counted
        if count <= _JUDGED_IMAGES:
            return np.arange(count), counted
        units = np.arange(count) if groups is None else groups
        order = random_stream("judged images", self.seed).permutation(int(units.max()) + 1)
        reference = order[units] < _JUDGED_IMAGES * len(order) / count
        chosen = reference.copy()
        for classes in self.labels.blocks():
            for column in self._positives(classes).T:
                positives = np.flatnonzero(column)
                chosen[positives[np.argsort(order[units[positives]])[:_JUDGED_POSITIVES]]] = True
        if groups is not None:  # take whole groups, because the rest of a group would leak its labels
            chosen = np.isin(groups, groups[chosen])
        rows = np.flatnonzero(chosen)
        return rows, (reference & counted)[rows]

    def _together(self, classes: Classes) -> npt.NDArray[np.int64]:
        """N×K number of known positives, in halves, that are left out together with an image, including its own."""
        groups, support = self.kernel.ridge.groups, self._support(classes)
        if groups is None:
            return support
        members = scipy.sparse.csr_array((np.ones(len(groups), np.int64), (groups, np.arange(len(groups)))))
        return np.asarray(members @ support)[groups]

    def _support(self, classes: Classes) -> npt.NDArray[np.int64]:
        """N×K known positives of images with a weight, in halves: a reviewed positive counts one half."""
        halves = (2 * self.labels.targets(classes)).clip(0).astype(np.int64)
        return halves * self._counted[:, None]

    def _counts(self) -> npt.NDArray[np.int64]:
        """Known positives of each class."""
        return np.concatenate([self._positives(classes).sum(axis=0) for classes in self.labels.blocks()])

    def _positives(self, classes: Classes) -> npt.NDArray[np.bool_]:
        """N×K flags of the known positives of images with a weight."""
        known: npt.NDArray[np.bool_] = self.labels.states(classes) == POSITIVE
        return known & self._counted[:, None]

    def _solve(self, classes: Classes, first: bool = True) -> None:
        """Fit the targets of the last step for some classes."""
        for block in self.labels.blocks(self._arrays, classes):
            hard = self._hard(block)
            if first:
                self._first_moments[:, block] = self.kernel.ridge.moments(hard)
            targets = self._targets(block, hard, self.step)
            for solution in self._solutions():
                is_first = solution is self.kernel and targets is hard
                solution.moments[:, block] = (
                    self._first_moments[:, block] if is_first else solution.ridge.moments(targets)
                )

    def _targets(self, classes: Classes, hard: Scores, step: SelfTraining) -> Scores:
        """N×K targets of a step; ``hard`` are the targets of the first step."""
        if step.imputes:
            penalty = step.factor * self.kernel.penalty
            return impute(self.kernel.ridge, penalty, self.labels.states(classes))
        return hard + np.float32(step.strength) * self._soft(classes, hard) if step.strength else hard

    def _soft(self, classes: Classes, hard: Scores) -> Scores:
        """Probability q of the unknown labels, from the calibrated scores of the first step."""
        ridge = self.kernel.ridge
        scores = ridge.held_out_scores(self._first_moments[:, classes], hard, self.kernel.penalty)
        return soft_part(self.first.select(classes), scores, self.labels.states(classes))

    @property
    def _arrays(self) -> int:
        """Number of N×K arrays in memory at once; a soft step and its folds need more."""
        return 1 if self.step == ONE_STEP else 12

    def _choose_step(self) -> SelfTraining:
        """Choose one step or two by the average precision of held-out positives."""
        counts = self._counts()
        unknown = np.concatenate(
            [(self.labels.states(classes)[self._counted] == UNKNOWN).mean(axis=0) for classes in self.labels.blocks()]
        )
        usable = counts >= 2
        if not unknown.any() or not usable.any():
            return ONE_STEP
        if self._knows_negatives(counts) and self.kernel.ridge.is_small:
            return imputing_step(float(1 - unknown.mean()))
        if np.median(counts[usable]) > _MANY_POSITIVES:
            return ONE_STEP
        steps = (ONE_STEP, *SOFT_STEPS)
        parts: list[list[Summary]] = [[] for _ in steps]
        for classes in self.labels.blocks(16):
            for part, scores in zip(parts, self._fold_scores(self.kernel, classes, steps), strict=True):
                part.append(self._summary(scores, classes))
        quality = [summarized_pu_average_precision(join(part)) for part in parts]
        best = 0
        for place in range(1, len(steps)):
            if quality[place] > (1 + _LEAST_GAIN) * quality[best]:
                best = place
        return steps[best]

    def _knows_negatives(self, counts: npt.NDArray[np.int64]) -> bool:
        """Whether negatives are known about as often as positives, so that unknown labels carry no information.

        This must hold in the median class, and every class that can be learned needs some negatives.
        """
        often = (self.first.negative_frequency / self.first.label_frequency)[counts >= FEWEST_POSITIVES]
        return bool(len(often) and np.median(often) >= _OFTEN and often.min() >= _SELDOM)

    def _fold_scores(self, solution: Solution, classes: Classes, steps: tuple[SelfTraining, ...]) -> list[Scores]:
        hard = self._hard(classes)
        means = [level_of(self._targets(classes, hard, step), self.kernel.ridge.weights, step) for step in steps]
        return fold_scores(solution.ridge, solution.penalty, self._folds(classes, steps), means, steps)

    def _folds(self, classes: Classes, steps: tuple[SelfTraining, ...]) -> Iterator[Fold]:
        ridge, states = self.kernel.ridge, self.labels.states(classes)
        first, reviewed = self.first.select(classes), self.labels.reviewed(classes)
        return soft_folds(ridge, self.kernel.penalty, first, states, reviewed, classes, ridge.groups, self.seed, steps)

    def _held_out(self, solution: Solution, classes: Classes) -> Scores:
        if self.step != ONE_STEP:
            return self._fold_scores(solution, classes, (self.step,))[0]
        return solution.ridge.held_out_scores(solution.moments[:, classes], self._hard(classes), solution.penalty)

    def _calibrate(self) -> None:
        """Calibrate the scores of the current step with out-of-sample scores."""
        self._stale: set[int] = set()
        is_small = np.prod(self.labels.shape) <= MOST_SCORES
        for solution in self._solutions():
            parts, held_out = [], []
            for classes in self.labels.blocks(self._arrays):
                scores = self._held_out(solution, classes)
                parts.append(self._summary(scores, classes, is_levelled=self.step != ONE_STEP))
                if is_small and solution is self.kernel:
                    held_out.append(scores)
            solution.held_out = np.concatenate(held_out, axis=1) if held_out else None
            solution.summary = join(parts)
            # The linear classifier has linear logits; the kernel classifier applies asinh.
            asinh_scale = LOGIT_ASINH_SCALE if solution is self.kernel else np.inf
            solution.calibration = calibrate_summary(solution.summary, asinh_scale=asinh_scale)

    def _summary(self, scores: Scores, classes: Classes, is_levelled: bool = True) -> Summary:
        """Summary of the out-of-sample scores of images with a weight."""
        states = self.labels.states(classes)
        values = scores if is_levelled else self._levelled(scores, classes)
        counted, reviewed = self._counted, self.labels.reviewed(classes)
        return summarize(values[counted], states[counted], reviewed[counted] > 0, leave_one_out=False)

    def _levelled(self, scores: Scores, classes: Classes) -> npt.NDArray[np.float64]:
        """Leave-one-out scores with known positives rescaled to the level of hidden ones."""
        known = self._support(classes).sum(axis=0)
        return rescale_loo(scores, self.labels.states(classes), known, self._together(classes))

    @property
    def _counted(self) -> npt.NDArray[np.bool_]:
        """Flags of the images with a weight above 0."""
        counted: npt.NDArray[np.bool_] = self.kernel.ridge.weights > 0
        return counted
