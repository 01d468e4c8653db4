"""The probe as an entry of the method registry: name, options and depths. It is fitted, not trained."""

from __future__ import annotations

from positively.finetune.methods.base import Method
from positively.probe import ProbeOptions


class ClosedForm(Method):
    """Fits a kernel classifier on frozen embeddings in closed form. Needs positives only, no epochs and no settings."""

    Options = ProbeOptions
    depths = ("probe",)
    head = "kernel"

    @property
    def uses_negatives(self) -> bool:
        """Known negatives are used if there are about as many as positives, and to estimate the label frequency."""
        return bool(self.options.negatives)
