"""``python -m benchmarks``: all of them, one after the other."""

from benchmarks import features, images, losses, memory, metrics, startup, training

for benchmark in (losses, metrics, images, training, features, memory, startup):
    benchmark.main()
