"""Options of a bench. This module imports little, so that help is quick."""

from dataclasses import dataclass
from typing import Literal

from positively.options import Folder


@dataclass
class BenchOptions:
    """Grid."""

    out: Folder = "runs/bench"
    """Folder of the bench. Results that it holds are not computed again."""
    seeds: int = 3
    """Number of seeds. A seed changes the hidden labels, the order of images and the first weights."""
    train_images: int | None = None
    """Use only this many training images of each dataset, drawn once."""
    test_images: int | None = None
    """Use only this many test images of each dataset, drawn once."""
    choose: Literal["auto", "yes", "rate", "no"] = "auto"
    """Choose start, learning rate and epoch of every row on complete labels of a part of the training images. 'yes'
    tries two starts, three learning rates (more if the highest is the best) and all epochs. 'rate' leaves the epoch to
    the training, which has no complete labels. 'no' uses the given options. 'auto' is 'yes' at depth 'probe', else
    'no'. An option that is given, such as --lr, is never chosen."""
    report: bool = False
    """Write tables and figures from existing results only."""
