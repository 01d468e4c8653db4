"""Rivals, benchmarks, recipes, simulation and studies; imports what other rooms export."""
