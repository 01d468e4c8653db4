"""The study on stored features: what of the closed form's lead is features, kernel, estimator; where positives lose."""
