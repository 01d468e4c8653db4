"""What a bench can be told. Light on purpose: the command line imports it to print its help."""

from dataclasses import dataclass
from typing import Literal


@dataclass
class BenchOptions:
    """The grid."""

    out: str = "runs/bench"
    """Folder of the bench; what is there already is not computed again."""
    seeds: int = 3
    """Number of seeds; a seed changes mask, order and start."""
    train_images: int | None = None
    """Take only this many training images of each benchmark, drawn once."""
    test_images: int | None = None
    """Take only this many test images of each benchmark, drawn once."""
    choose: Literal["auto", "yes", "rate", "no"] = "auto"
    """Whether every row gets the better of two starts and three learning rates (and of more, where the highest is the
    best) and the epoch that served it best, chosen on complete labels of a part of the training images; 'rate': the
    epoch is left to the training, which knows only what a user would; 'auto': yes at depth probe. What --start or --lr
    fixes is not chosen."""
    report: bool = False
    """Only write tables and figures again, of what is there."""
