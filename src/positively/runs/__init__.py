"""Run folders, written and read, and what a trained run does: tags of one photo, or of millions into a file."""

from positively.runs.pictures import find_pictures
from positively.runs.predictions import Written, write_predictions
from positively.runs.run import Run, Scores
from positively.runs.tagging import Picture, Prediction, Tagger

__all__ = ["Picture", "Prediction", "Run", "Scores", "Tagger", "Written", "find_pictures", "write_predictions"]
