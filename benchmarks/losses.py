"""Losses, forward and backward, compared with the binary cross-entropy of torch.

Run as ``python -m benchmarks.losses`` from the root of the project.
"""

from collections.abc import Callable

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from benchmarks.timing import measure, ratio_table
from positively.losses import LOSSES


def main() -> None:
    for rows, classes in ((64, 80), (512, 1000)):
        generator = torch.Generator().manual_seed(0)
        logits = torch.randn(rows, classes, generator=generator).requires_grad_()
        states = (torch.rand(rows, classes, generator=generator) < 0.04).long()
        target = states.float()

        def backward(loss: Callable[[], torch.Tensor], logits: torch.Tensor = logits) -> None:
            for _ in range(20):
                logits.grad = None
                loss().backward()

        tasks = {
            "torch BCE": lambda target=target, logits=logits: backward(
                lambda: binary_cross_entropy_with_logits(logits, target)
            )
        }
        for name, loss in LOSSES.items():
            module = loss()
            tasks[name] = lambda module=module, logits=logits, states=states: backward(lambda: module(logits, states))
        print(ratio_table(f"20 × loss and gradient, {rows} × {classes}", measure(tasks)), end="\n\n")


if __name__ == "__main__":
    main()
