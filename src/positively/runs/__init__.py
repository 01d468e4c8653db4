"""Run folders, written and read, and scores by a trained run. Import what is needed from its modules."""
