"""Training: configuration, loop, run folder. Import what is needed from its modules; this one costs nothing."""
