"""Images → tags, by a trained run: one photo from Python, or millions into a file."""

from positively.predict.pictures import find_pictures
from positively.predict.run import Run, Scores
from positively.predict.tagging import Picture, Prediction, Tagger
from positively.predict.writing import Written, write_predictions

__all__ = ["Picture", "Prediction", "Run", "Scores", "Tagger", "Written", "find_pictures", "write_predictions"]
