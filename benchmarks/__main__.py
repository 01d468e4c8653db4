"""``python -m benchmarks``: all of them, one after the other."""

from benchmarks import images, losses, memory, metrics, training

for benchmark in (losses, metrics, images, training, memory):
    benchmark.main()
