"""Run folders, and what a trained run does: predict tags of images, and evaluate."""

from positively.runs.folder import RunFolder
from positively.runs.hiding import hide_labels, training_rows
from positively.runs.pictures import find_pictures
from positively.runs.predictions import Written, write_predictions
from positively.runs.run import Run, Scores
from positively.runs.tagging import Picture, Prediction, Tagger

__all__ = [
    "Picture",
    "Prediction",
    "Run",
    "RunFolder",
    "Scores",
    "Tagger",
    "Written",
    "find_pictures",
    "hide_labels",
    "training_rows",
    "write_predictions",
]
