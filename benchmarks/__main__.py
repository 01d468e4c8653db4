"""``python -m benchmarks``: all of them, one after the other."""

from benchmarks import busy, features, images, losses, memory, metrics, probe, startup, training

for benchmark in (losses, metrics, images, training, features, probe, memory, busy, startup):
    benchmark.main()
