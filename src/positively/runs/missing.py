"""What the table of a run lacks, by the out-of-sample scores that the run stored."""

from __future__ import annotations

from positively.errors import RunError
from positively.missing import MissingTags, rank_missing
from positively.runs.run import Run
from positively.runs.saving import has_exact_scores


def missing_in_run(run: Run, *, min_probability: float = 0.0) -> MissingTags:
    """What the table of a run lacks, by the out-of-sample scores the run stored."""
    depth, classes = run.model_config["depth"], run.classes
    is_exact = has_exact_scores(run.model_config)
    found = run.folder.read_out_of_sample() if is_exact else None
    if found is None:
        why = (
            f"its network has seen the labels of its photos (depth '{depth}')"
            if not is_exact
            else "it came from the hub, which gets no scores of photos"
            if not run.folder.holds_run
            else f"method '{run.model_config['method']}' gives no scores of labels it did not see, or the table is too "
            "large to store them"
        )
        raise RunError(
            f"{run.path} cannot tell what its table lacks: {why}. Give the table itself: the same options then train "
            "one model a fold, or (depth 'probe') solve it at once."
        )
    images, states, scores = found
    return rank_missing(
        scores.scores, states, scores.calibrated.calibration, images, classes, min_probability=min_probability
    )
