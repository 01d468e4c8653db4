"""CPU time of commands that compute little: help, wrong names, one image.

Run as ``python -m benchmarks.startup [--run RUN --photo PHOTO] [--python PYTHON]`` from the root of the project.
PYTHON is the interpreter of another environment, such as one without torch. With a run, ``predict`` of one image is
compared with a program that runs model.onnx with Pillow, NumPy and ONNX Runtime only.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

WRONG = {
    "check": ["nowhere.csv"],
    "missing": ["nowhere.csv"],
    "review": ["nowhere.csv"],
    "train": ["nowhere.csv"],
    "predict": ["nowhere", "photo.jpg"],
    "evaluate": ["nowhere", "nowhere.csv"],
    "export": ["nowhere"],
    "report": ["nowhere"],
    "bench": ["nowhere"],
}
"""Arguments of each verb that name something that does not exist."""
NAMES = [["train", "tags.csv", "--method", "nowhere"], ["train", "tags.csv", "--backbone", "nowhere"]]
HEAVY = ("torch", "timm", "lightning_fabric", "sklearn", "matplotlib")

BARE = """
import json, sys
import numpy as np, onnxruntime
from PIL import Image, ImageOps
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
image = ImageOps.exif_transpose(Image.open(sys.argv[2])).convert("RGB").resize((224, 224), Image.Resampling.BICUBIC)
pixels = np.asarray(image, dtype=np.float32).transpose(2, 0, 1)[None] / 255
print(session.run(["scores"], {"images": pixels})[0])
"""
LISTING = f"""
import atexit, sys
from positively.cli import main
atexit.register(lambda: print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr))
sys.exit(main(sys.argv[1:]))
"""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=Path)
    parser.add_argument("--photo", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    ours = [options.python, "-m", "positively"]
    tasks = {
        "python -c pass": [options.python, "-c", "pass"],
        "import positively": [options.python, "-c", "import positively"],
        "positively --help": [*ours, "--help"],
        **{f"positively {verb} --help": [*ours, verb, "--help"] for verb in ("missing", "train")},
        **{f"positively {' '.join([verb, *words])}": [*ours, verb, *words] for verb, words in WRONG.items()},
        **{f"positively {' '.join(words)}": [*ours, *words] for words in NAMES},
    }
    if options.run and options.photo:
        run, photo = options.run.resolve(), str(options.photo.resolve())
        tasks["positively predict RUN PHOTO"] = [*ours, "predict", str(run), photo]
        tasks["onnxruntime, Pillow, numpy"] = [options.python, "-c", BARE, str(run / "model.onnx"), photo]
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "tags.csv").write_text("image,tags\nphoto.jpg,tag\n")
        for name, words in tasks.items():
            seconds = min(cpu_seconds(words, place) for _ in range(options.repeats))
            heavy = "" if words[1] != "-m" else loaded([options.python, "-c", LISTING, *words[3:]], place)
            print(f"{name:<46}{seconds:6.2f} s of CPU  {heavy}")


def cpu_seconds(words: list[str], place: str) -> float:
    """CPU time of a process on one thread."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, cwd=place, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def loaded(words: list[str], place: str) -> str:
    """Heavy packages that a command imports."""
    done = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False)
    return f"exit {done.returncode}, loads {done.stderr.strip().splitlines()[-1]}"


if __name__ == "__main__":
    main()
