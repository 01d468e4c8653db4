"""Missing tags of a run's table, by the out-of-sample scores that the run stored."""

from __future__ import annotations

from positively.errors import RunError
from positively.missing import MissingTags, rank_missing
from positively.runs.run import Run
from positively.runs.saving import has_exact_scores


def missing_in_run(run: Run, *, min_probability: float = 0.0) -> MissingTags:
    """Find the missing tags of a run's table, by the out-of-sample scores the run stored."""
    depth, classes = run.model_config["depth"], run.classes
    is_exact = has_exact_scores(run.model_config)
    found = run.folder.read_out_of_sample() if is_exact else None
    if found is None:
        why = (
            f"its network has seen the labels of its images (depth '{depth}')"
            if not is_exact
            else "it came from the hub, where runs have no scores of images"
            if not run.folder.holds_run
            else f"method '{run.model_config['method']}' gives no out-of-sample scores, or the table is too large "
            "to store them"
        )
        raise RunError(
            f"{run.path} cannot list missing tags: {why}. Pass the table in place of the run; then one model is "
            "trained for each fold (or a probe is fitted at depth 'probe')."
        )
    images, states, scores = found
    return rank_missing(
        scores.scores, states, scores.calibrated.calibration, images, classes, min_probability=min_probability
    )
