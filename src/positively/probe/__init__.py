"""The probe: a classifier that is fitted to embeddings in closed form, with leave-one-out scores."""

from positively.probe.basis import Basis, Kernel
from positively.probe.classifier import KernelClassifier, LinearClassifier
from positively.probe.fitting import LANDMARKS, WIDTH, decompose, fit
from positively.probe.probe import Probe
from positively.probe.series import find_series
from positively.probe.soft import ONE_STEP, SOFT_STEPS, SelfTraining
from positively.probe.tables import (
    METHOD,
    ProbeOptions,
    calibrated_heads,
    first_out_of_sample,
    fit_measures,
    fit_table,
    reviewed_labels,
)

__all__ = [
    "LANDMARKS",
    "METHOD",
    "ONE_STEP",
    "SOFT_STEPS",
    "WIDTH",
    "Basis",
    "Kernel",
    "KernelClassifier",
    "LinearClassifier",
    "Probe",
    "ProbeOptions",
    "SelfTraining",
    "calibrated_heads",
    "decompose",
    "find_series",
    "first_out_of_sample",
    "fit",
    "fit_measures",
    "fit_table",
    "reviewed_labels",
]
