"""``python -m benchmarks``: run the speed benchmarks one after the other."""

from benchmarks import busy, features, images, losses, memory, metrics, probe, startup, training

for benchmark in (losses, metrics, images, training, features, probe, memory, busy, startup):
    benchmark.main()
