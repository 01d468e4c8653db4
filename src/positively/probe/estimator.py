"""The probe as a scikit-learn estimator. This is the only file that imports scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from positively.calibration import CalibratedScores
from positively.errors import InputError, PositivelyError, and_more
from positively.labels import NEGATIVE, POSITIVE, UNKNOWN, LabelTable, States, check_states
from positively.metrics import pu_average_precision
from positively.probe.choice import Criterion
from positively.probe.fitting import LANDMARKS, WIDTH, KernelName, fit
from positively.probe.linalg import WholeImages
from positively.probe.series import find_series
from positively.probe.soft import ONE_STEP, SOFT_STEPS, SelfTraining

Values = npt.NDArray[np.float64]

_BINARY_THRESHOLD = 0.5


class PUClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Multi-label classifier that learns from positive and unlabeled rows.

    A kernel ridge regression on embeddings, solved in closed form. The penalty is chosen with exact leave-one-out
    scores, which also calibrate the probabilities. Negatives are used if there are any, but are not required.

    If ``y`` has two dimensions, it holds N×C label states: +1 positive, 0 unknown, −1 negative. It can be a dense array
    or a scipy sparse matrix. If ``y`` has one dimension, it has two distinct values: ``classes_[1]`` is positive and
    the other is unknown.

    Args:
        kernel: ``"gaussian"``, or ``"linear"`` for a linear model of the standardized features.
        landmarks: Number of training rows that the Gaussian kernel compares each row with.
        width: The Gaussian kernel is exp(−width ‖a−b‖² / mean ‖a−b‖²), on root-normalized features.
        penalty: Ridge penalty λ. If None, it is chosen with leave-one-out scores.
        criterion: Criterion that chooses λ, computed on the known positives: ``"pu_average_precision"`` or
            ``"log_rank"``.
        self_training: Whether a second fit uses the estimated probabilities of the unlabeled rows as targets.
            ``"auto"`` does so if it ranks held-out positives higher. A number scales the probabilities; True means 0.5.
        unlabeled_includes_positives: Whether 0 means unknown. If False, 0 is negative, as in other classifiers.
        random_state: Seed for the choice of landmarks and label folds.

    Attributes:
        classes_: For 1-D ``y``, its two values. For 2-D ``y``, a C×2 array with 0 and 1 for each column.
        thresholds_: (C,) thresholds on the probability for :meth:`predict`. They maximize the expected F1, and are
            infinite for a column that was not learned. For 1-D ``y``, the threshold is 0.5.
        penalty_: λ of the fit.
        label_frequency_: (C,) estimated share of the positives that are labeled.
        probe_: The fitted :class:`positively.probe.Probe`.
        n_features_in_: Number of features.
        feature_names_in_: Names of the features, if ``X`` has names that are all strings.
        missing_: Probability that each unknown label of the training rows is positive, in the shape of ``y``; NaN where
            a label is known.
        loo_scores_: Leave-one-out logits of the training rows, in the shape of ``y``. They did not see the label they
            score: ``po.find_missing(scipy.special.expit(classifier.loo_scores_), Y)``.

    >>> import numpy as np
    >>> import positively as po
    >>> from sklearn.datasets import make_multilabel_classification
    >>> X, truth = make_multilabel_classification(500, n_features=12, n_classes=4, random_state=0)
    >>> Y = truth * (np.random.default_rng(0).random(truth.shape) < 0.5)  # half of the positives are labeled
    >>> classifier = po.PUClassifier().fit(X[:400], Y[:400])
    >>> classifier.predict_proba(X[400:]).shape
    (100, 4)
    >>> hidden = (truth == 1) & (Y == 0)
    >>> bool(np.nanmean(classifier.missing_[hidden[:400]]) > 2 * np.nanmean(classifier.missing_[truth[:400] == 0]))
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        "kernel": [StrOptions({"gaussian", "linear"})],
        "landmarks": [Interval(Integral, 1, None, closed="left")],
        "width": [Interval(Real, 0, None, closed="neither")],
        "penalty": [None, Interval(Real, 0, None, closed="neither")],
        "criterion": [StrOptions({"pu_average_precision", "log_rank"})],
        "self_training": [StrOptions({"auto"}), "boolean", Interval(Real, 0, 1, closed="both")],
        "unlabeled_includes_positives": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        kernel: KernelName = "gaussian",
        landmarks: int = LANDMARKS,
        width: float = WIDTH,
        penalty: float | None = None,
        criterion: Criterion = "pu_average_precision",
        self_training: Literal["auto"] | float = "auto",
        unlabeled_includes_positives: bool = True,
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.landmarks = landmarks
        self.width = width
        self.penalty = penalty
        self.criterion = criterion
        self.self_training = self_training
        self.unlabeled_includes_positives = unlabeled_includes_positives
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Tags for scikit-learn: multi-label, not multi-class."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the classifier to label states.

        Args:
            X: N×D features such as embeddings, or N×(1+P)×D with the features of P parts of each image. Arrays of
                float32 are not copied.
            y: N×C states +1, 0, −1, dense or sparse; or (N,) with two distinct values.
            sample_weight: (N,) weight of each row.
            groups: (N,) rows with equal values, such as copies of one image, are left out together in leave-one-out
                scores. ``"auto"`` finds series of near-duplicate images.

        Returns:
            The fitted estimator.

        Raises:
            ValueError: if shapes or values do not fit.
        """
        self._validate_params()
        X = self._features(X, reset=True, y=y)
        with _value_errors():
            states = self._states(y)
            check_consistent_length(X, states)
            _require_positives(states, list(getattr(y, "columns", ())))
            if sample_weight is not None:
                sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
                if self._is_binary and len(np.unique(states[sample_weight > 0])) < 2:
                    raise InputError("All rows with a weight above 0 have one class; pass rows of two classes.")
            seed = self._seed()
            if isinstance(groups, str):
                if groups != "auto":
                    raise InputError(f"groups must be an array with one value for each row, or 'auto', not {groups!r}.")
                groups = find_series(WholeImages(X), seed=seed)
            self.probe_ = fit(
                X,
                states,
                groups=groups,
                sample_weight=sample_weight,
                kernel=self.kernel,
                landmarks=self.landmarks,
                width=self.width,
                penalty=self.penalty,
                criterion=self.criterion,
                step=self._step(),
                seed=seed,
            )
        solution = self.probe_.kernel
        self.penalty_ = solution.penalty
        self.label_frequency_ = solution.calibration.label_frequency
        self.thresholds_ = CalibratedScores(solution.calibration, solution.summary).thresholds()
        if self._is_binary:
            self.thresholds_ = np.full(1, _BINARY_THRESHOLD)
        return self

    def decision_function(self, X: Any) -> Values:
        """Logits of the probabilities.

        Args:
            X: Features as in :meth:`fit`.

        Returns:
            N×C, or (N,) for 1-D ``y``.
        """
        check_is_fitted(self)
        X = self._features(X)
        with _value_errors():
            return self._shaped(self.probe_.calibration.logits(self.probe_.scores(X)))

    def predict_proba(self, X: Any) -> Values:
        """Probability of each tag.

        Args:
            X: Features as in :meth:`fit`.

        Returns:
            N×C, or N×2 (both classes) for 1-D ``y``.
        """
        check_is_fitted(self)
        X = self._features(X)
        with _value_errors():
            found = self.probe_.probabilities(X)
        return np.hstack([1 - found, found]) if self._is_binary else found

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict tags with ``thresholds_``.

        Args:
            X: Features as in :meth:`fit`.

        Returns:
            N×C with values 0 and 1, or (N,) with values of ``classes_`` for 1-D ``y``.
        """
        found = self.predict_proba(X)
        if self._is_binary:
            return np.asarray(self.classes_[(found[:, 1] > self.thresholds_[0]).astype(np.int64)])
        return (found >= self.thresholds_).astype(np.int64)

    def score(self, X: Any, y: Any) -> float:
        """Average precision from positives alone (:func:`positively.metrics.pu_average_precision`).

        Unlike accuracy, it does not count unlabeled rows as negatives. Compare values only on the same rows and
        folds: they depend on the share of the positives that are labeled, and small values are normal.

        Args:
            X: Features of rows that were not used in :meth:`fit`.
            y: Their labels, as in :meth:`fit`.

        Returns:
            A number up to the share of positives that are known; higher is better.
        """
        scores = self.decision_function(X)
        if self._is_binary:
            y = (column_or_1d(y) == self.classes_[1]).astype(np.int8)
        with _value_errors():
            return pu_average_precision(y, scores)

    @property
    def loo_scores_(self) -> Values:
        """Leave-one-out logits of the training rows, on the scale of :meth:`decision_function`."""
        check_is_fitted(self)
        probe = self.probe_
        every = np.arange(probe.labels.shape[1])
        scores = probe.first_scores(every) if probe.step == ONE_STEP else probe.loo_scores
        return self._shaped(probe.calibration.logits(scores))

    @property
    def missing_(self) -> Values:
        """Probability that each unknown label of the training rows is positive, in the shape of ``y``.

        NaN where a label is known. The sum of a column is the expected number of missing positives.
        """
        check_is_fitted(self)
        probe = self.probe_
        every = np.arange(probe.labels.shape[1])
        states = probe.labels.states(every)
        found = probe.first.soft_targets(probe.first_scores(every), states)
        return self._shaped(np.where(states == UNKNOWN, found, np.nan))

    def update(self, rows: npt.ArrayLike, states: npt.ArrayLike) -> Self:
        """Change labels of training rows, for example after a review, without a new fit.

        The cost is one matrix product per changed column. λ, thresholds and calibration do not change; call
        :meth:`fit` to choose them again.

        Args:
            rows: (K,) row numbers.
            states: K×C new states +1, 0, −1 of these rows, or (K,) for 1-D ``y``.

        Returns:
            The updated estimator.
        """
        check_is_fitted(self)
        new = np.asarray(states)
        with _value_errors():
            self.probe_.update(rows, new.reshape(-1, 1) if self._is_binary else new)
        return self

    @property
    def _is_binary(self) -> bool:
        """Whether ``y`` had one dimension."""
        return bool(self.classes_.ndim == 1)

    def _shaped(self, values: Values) -> Values:
        return values[:, 0] if self._is_binary else values

    def _features(self, X: Any, reset: bool = False, y: Any = "no_validation") -> npt.NDArray[np.float32]:
        """Validated features in single precision; scikit-learn cannot validate N×(1+P)×D."""
        if isinstance(X, LabelTable):
            raise InputError("X must be embeddings, not a table: po.embed(table).X.")
        dimensions = len(getattr(X, "shape", np.shape(X) if isinstance(X, list | tuple) else ()))
        if dimensions > 3:
            raise InputError(
                f"X has {dimensions} dimensions. Pass embeddings N×D, or N×(1+P)×D with parts; po.embed computes them "
                "from images."
            )
        if dimensions != 3:
            given = {"y": None if y is None else "no_validation"} if reset else {}
            return np.asarray(validate_data(self, X, dtype=np.float32, reset=reset, **given))
        parts = np.asarray(check_array(X, allow_nd=True, dtype=np.float32, estimator=self, input_name="X"))
        if reset:
            self.n_features_in_ = parts.shape[2]
        return parts

    def _states(self, y: Any) -> Any:
        """Label states N×C of 2-D or 1-D labels; sets ``classes_``."""
        if isinstance(y, LabelTable):
            raise InputError("y must be an array of label states, not a table: pass table.states().")
        if sparse.issparse(y):
            y = check_array(y, accept_sparse="csr", dtype=None, input_name="y")
        else:
            array = np.asarray(y)
            if array.ndim == 2 and array.dtype.kind == "f":
                check_states(array)  # its message says what to do about NaN
            y = check_array(y, ensure_2d=False, dtype=None, input_name="y")
        if y.ndim == 2:
            self.classes_: Any = np.tile([0, 1], (y.shape[1], 1))
            return self._closed(y)
        check_classification_targets(y)
        values = np.unique(y)
        if len(values) > 2:
            raise InputError(
                f"Only binary classification is supported for 1-D y, and y has {len(values)} classes. Pass an array of "
                "rows × classes with states 1 (positive), 0 (unknown) and -1 (negative)."
            )
        if values.dtype.kind in "fi" and set(values.tolist()) <= {0, -1}:
            raise InputError("y has no positive label (1): it holds unknown (0) and negative (-1) labels only.")
        if len(values) < 2:
            raise InputError("y has one class; pass rows of two classes.")
        self.classes_ = values
        return self._closed((y == values[1]).astype(np.int8)[:, None])

    def _closed(self, states: Any) -> Any:
        """States in which unknown labels are negatives, if that was asked for."""
        if self.unlabeled_includes_positives:
            return states
        dense: States = check_states(states.toarray() if sparse.issparse(states) else states)
        return np.where(dense == POSITIVE, POSITIVE, NEGATIVE).astype(np.int8)

    def _step(self) -> SelfTraining | None:
        if isinstance(self.self_training, str):
            return None
        if isinstance(self.self_training, bool | np.bool_):
            return SOFT_STEPS[-1] if self.self_training else ONE_STEP
        return SelfTraining(float(self.self_training)) if self.self_training else ONE_STEP

    def _seed(self) -> int:
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))


def _require_positives(states: Any, names: Sequence[Any]) -> None:
    """Raise if no label is positive; warn about classes without a positive label."""
    check_states(states.data if sparse.issparse(states) else states)
    counts = np.asarray((states == POSITIVE).sum(axis=0)).reshape(-1)
    without = np.flatnonzero(counts == 0).tolist()
    if len(without) == len(counts):
        raise InputError("y has no positive label (1), so there is nothing to learn.")
    if without:
        listed = and_more([names[column] if names else column for column in without])
        warnings.warn(f"Columns of y with no positive label are never predicted: {listed}.", UserWarning, stacklevel=3)


@contextmanager
def _value_errors() -> Iterator[None]:
    """Turn our errors into ValueErrors, as scikit-learn's contract requires."""
    try:
        yield
    except InputError:
        raise
    except PositivelyError as error:
        raise InputError(error.message) from error
