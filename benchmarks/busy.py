"""OMP wait policy: spinning (the default) or sleeping threads, on an idle machine and next to a busy process.

Each setting runs in its own process, because it is read when torch is loaded; the settings alternate. Run as
``python -m benchmarks.busy`` from the root of the project.
"""

import os
import subprocess
import sys
from contextlib import ExitStack

WORK = """
import sys, time, torch
from positively.cli.process import keep_freed_memory
from positively.losses import assume_negative
from positively.models import create_classifier
keep_freed_memory()
network = create_classifier("tf_efficientnet_lite0", 80, "none", 224, freeze_batchnorm=True)
network = network.to(memory_format=torch.channels_last)
images = torch.zeros(16, 224, 224, 3, dtype=torch.uint8).permute(0, 3, 1, 2)
states = torch.zeros(16, 80)
def infer():
    network.eval()
    with torch.inference_mode():
        network(images)
def learn():
    network.train()
    assume_negative(network(images), states).backward()
for work in (infer, learn):
    work()
    seconds = []
    for _ in range(int(sys.argv[1])):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    print(sorted(seconds)[len(seconds) // 2])
"""
BUSY = "while True: pass"
POLICIES = {"default": None, "asleep": "PASSIVE"}
TASKS = ("inference", "a training step")


def main(rounds: int = 3, repeats: int = 7) -> None:
    print("tf_efficientnet_lite0, 16 images of 224 px, all cores, by wait policy (medians):")
    for others in (0, 1):
        seconds: dict[tuple[str, str], float] = {}
        with ExitStack() as stack:
            for _ in range(others):
                process = subprocess.Popen([sys.executable, "-c", BUSY])
                stack.callback(process.kill)
            for _ in range(rounds):
                for name, policy in POLICIES.items():
                    environment = {key: value for key, value in os.environ.items() if not key.startswith("OMP_")}
                    environment |= {} if policy is None else {"OMP_WAIT_POLICY": policy}
                    words = [sys.executable, "-c", WORK, str(repeats)]
                    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
                    for task, value in zip(TASKS, map(float, done.stdout.split()), strict=True):
                        seconds[task, name] = min(seconds.get((task, name), float("inf")), value)
        for task in TASKS:
            ours = seconds[task, "asleep"]
            spinning = seconds[task, "default"] / ours
            where = "next to a busy process" if others else "alone"
            print(f"  {where:<22} {task:<16} asleep 1.00 ×, default {spinning:.2f} ×")
    print()


if __name__ == "__main__":
    main()
