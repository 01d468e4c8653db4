"""Choice of the demo's PU-MLC options: from positives alone, on held-out training scenes, never on test scenes.

Every variant trains on the 30 % of tags of the demo (seed 0) with the network of the demo. The criterion is the vPU
loss on the held-out scenes, which needs no negatives. The second column checks the criterion: mAP on the same scenes
with complete labels, which a user would not have.

Run ``python -m benchmarks.choices`` from the root of the project; it takes about six minutes on two cores.
"""

import csv
import tempfile
from pathlib import Path

from positively.api import fit
from positively.finetune import split_rows
from positively.metrics import mean_average_precision
from positively.research.paper_demo import NETWORK, make_tables, write_tags

FORMS = {
    "as published (γ .55, α 1)": {},
    "γ .55, only the spread is tempered": {"temper": "spread"},
    "γ .55, no temperature": {"tau": 1.0},
    "γ .2, no temperature": {"gamma": 0.2, "tau": 1.0},
    "γ 0, no temperature (vPU)": {"gamma": 0.0, "tau": 1.0},
    "γ .2, no temperature, no mixup": {"gamma": 0.2, "tau": 1.0, "mixup": 0.0},
}


def main() -> None:
    lines = [f"{'form of PU-MLC':<36}  {'criterion (lower is better)':>27}  {'mAP, for us only':>16}"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        complete, _ = make_tables(folder / "scenes")
        tags = write_tags(folder / "scenes", complete, seed=0)
        holdout = complete.select(split_rows(tags, NETWORK["holdout"], seed=0)[1])
        for number, (form, options) in enumerate(FORMS.items()):
            run = fit(tags, method="pu-mlc", method_options=options, out=str(folder / str(number)), **NETWORK)
            with (run.path / "metrics.csv").open() as file:
                criterion = float(list(csv.DictReader(file))[-1]["holdout_pu"])
            quality = 100 * mean_average_precision(run.scores(holdout), holdout.states())
            lines.append(f"{form:<36}  {criterion:>27.3f}  {quality:>16.1f}")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
