"""The probe as a method's name, where only names, options and depths are asked for. It is fitted, not trained."""

from __future__ import annotations

from positively.finetune.methods.base import Method
from positively.probe import ProbeOptions


class ClosedForm(Method):
    """Least-squares density ratios in closed form: `positively.probe.fit_table` on embeddings of all images."""

    Options = ProbeOptions
    depths = ("probe",)
    head = "kernel"

    @property
    def uses_negatives(self) -> bool:
        """They are fitted where they are known about as often as positives, and show how many labels are known."""
        return bool(self.options.negatives)
