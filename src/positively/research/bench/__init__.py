"""Benchmarks: grids of trainings, one result file per cell, and the tables and figures of the paper."""
