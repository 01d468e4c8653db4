"""Benchmarks: speed and quality compared with other packages, as ratios measured in one run."""
