"""From an answer to the new ranking of its tag: 5,000, 20,000 and 100,000 images × 100 tags, on one thread.

For comparison, in the same run: five-fold out-of-sample scores of that tag by scikit-learn's linear logistic
regression, relative to ours, and answers while the model is updated in the background. Then the list of missing tags
of 100,000 images × 100 tags. Every size runs in its own process.

Run as ``python -m benchmarks.review [SIZES]`` from the root of the project.
"""

import json
import os
import subprocess
import sys

SIZES = (5_000, 20_000, 100_000)

ANSWERS = """
import json, resource, sys, threading, time
import numpy as np
from positively.review.model import ReviewModel
images, tags, answers = int(sys.argv[1]), 100, 200
generator = np.random.default_rng(0)
truth = generator.random((images, tags)) < 0.03
features = (generator.gamma(1.0, size=(images, 256)) + 1.5 * truth @ generator.random((tags, 256))).astype(np.float32)
states = (truth & (generator.random(truth.shape) < 0.3)).astype(np.int8)
began = time.perf_counter()
model = ReviewModel(features, states, [str(tag) for tag in range(tags)])
found = {"start": time.perf_counter() - began}

def one(number, clock=time.perf_counter):
    question = model.ask("likeliest", 1, column=number % tags)[0]
    began = clock()
    model.answer(question.row, question.column, 1 if truth[question.row, question.column] else -1)
    model.ranking(question.column, 100)
    model.probabilities(question.column)
    return clock() - began

found["answer"] = [one(number) for number in range(answers)]
found["processor"] = [one(number, time.thread_time) for number in range(answers)]
began = time.perf_counter()
model.ranking(model.add_class("new", np.flatnonzero(truth[:, 0])[:3]), 100)
found["new tag"] = time.perf_counter() - began
times = []
for row in range(answers):
    began = time.perf_counter()
    model.photo(row)
    times.append(time.perf_counter() - began)
found["photo"] = times
renewing = threading.Thread(target=model.renew)
renewing.start()
found["meanwhile"] = [one(number) for number in range(answers) if renewing.is_alive()]
renewing.join()

from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
scaled, times = (features - features.mean(0)) / features.std(0), []
for _ in range(3):
    began = time.perf_counter()
    scores = cross_val_predict(LogisticRegression(), scaled, states[:, 0], cv=5, method="decision_function")
    np.argsort(-scores)
    times.append(time.perf_counter() - began)
found["peer"] = times
found["gigabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps(found))
"""

LIST = """
import json, resource, time
import numpy as np
from positively.calibration import calibrate
from positively.missing import rank_missing
generator = np.random.default_rng(0)
truth = generator.random((100_000, 100)) < 0.03
scores = generator.normal(3.0 * truth).astype(np.float32)
states = (truth & (generator.random(truth.shape) < 0.3)).astype(np.int8)
calibration = calibrate(scores[:10_000], states[:10_000], leave_one_out=False)
images, classes = [f"{row}.jpg" for row in range(len(scores))], [str(tag) for tag in range(100)]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
began = time.perf_counter()
found = rank_missing(scores, states, calibration, images, classes)
seconds = time.perf_counter() - began
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps({"seconds": seconds, "gigabytes": memory, "own": memory - before, "pairs": len(found)}))
"""


def main() -> None:
    sizes = tuple(int(size) for size in sys.argv[1:]) or SIZES
    print(f"{'100 tags, 2,000 landmarks, 200 answers; ms: p50 / p99':<56}" + "".join(f"{size:>16,}" for size in sizes))
    found = {size: run(ANSWERS, str(size)) for size in sizes}
    rows = {
        "answer": "answer → new ranking of its tag",
        "processor": "same, CPU time only",
        "meanwhile": "same, during an update of the model",
        "photo": "tags of one image",
    }
    for row, name in rows.items():
        print(f"{name:<56}" + "".join(f"{quantiles(figures.get(row)):>16}" for figures in found.values()))
    print(f"{'a new tag from three images':<56}" + "".join(f"{1e3 * one['new tag']:>16.1f}" for one in found.values()))
    peer = [f"{median(one['peer']) / median(one['answer']):.0f} ×" for one in found.values()]
    print(f"{'linear logistic regression of that tag in five folds':<56}" + "".join(f"{cell:>16}" for cell in peer))
    print(f"{'before the first answer, s':<56}" + "".join(f"{one['start']:>16.1f}" for one in found.values()))
    print(f"{'total memory, GB':<56}" + "".join(f"{one['gigabytes']:>16.2f}" for one in found.values()))
    listed = run(LIST)
    print(
        f"100,000 × 100 scores ranked: {listed['pairs']:,} pairs in {listed['seconds']:.1f} s, "
        f"{listed['own']:.2f} GB beyond the scores, {listed['gigabytes']:.2f} GB in total"
    )


def run(program: str, *arguments: str) -> dict:
    """Run a program on one thread and parse its output."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def median(times: list[float]) -> float:
    return sorted(times)[len(times) // 2]


def quantiles(times: list[float] | None) -> str:
    """Median and 99th percentile in milliseconds."""
    if not times:
        return ""
    return f"{1e3 * median(times):.1f} / {1e3 * sorted(times)[int(0.99 * len(times))]:.1f}"


if __name__ == "__main__":
    main()
