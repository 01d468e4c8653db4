"""How long a person waits for help, beside an empty Python program.

Run as ``python -m benchmarks.startup`` from the root of the project.
"""

import subprocess
import sys

from benchmarks.timing import measure, ratio_table


def main() -> None:
    def call(*words: str) -> None:
        subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)

    tasks = {
        "python -c pass": lambda: call("-c", "pass"),
        "positively --help": lambda: call("-m", "positively", "--help"),
        "positively train --help": lambda: call("-m", "positively", "train", "--help"),
    }
    print(ratio_table("start", measure(tasks)), end="\n\n")


if __name__ == "__main__":
    main()
