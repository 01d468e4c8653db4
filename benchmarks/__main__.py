"""``python -m benchmarks``: all of them, one after the other."""

from benchmarks import images, losses, memory, metrics, startup, training

for benchmark in (losses, metrics, images, training, memory, startup):
    benchmark.main()
