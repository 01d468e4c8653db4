"""The study on stored embeddings: what explains the lead of the probe, and where positives alone are worse."""
