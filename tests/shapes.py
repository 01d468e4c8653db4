"""A set that every right method learns: coloured squares on noise, half of the positive tags known, no negative.

An untrained network ranks the test pictures little better than chance (0.34 mAP, the share of pictures with a class),
below :data:`UNTRAINED` on average over seeds; a method that learns reaches :data:`LEARNED`.
"""

from dataclasses import replace

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

from positively.labels import NEGATIVE, LabelTable
from positively.losses import bce
from positively.models import create_classifier
from positively.training.config import TrainConfig

COLORS = {"red": (220, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 220), "yellow": (220, 200, 30)}
SIDE, LEARNED, UNTRAINED = 24, 0.9, 0.65
# The bounded surrogate is known to end where everything is negative: it is no mistake of the implementation.
OPTIONS = {name: {"surrogate": "logistic", "label_frequency": 0.5} for name in ("upu", "nnpu")}


def write_shapes(folder, part, count, seed):
    """Write pictures and return their complete table."""
    generator = np.random.default_rng(seed)
    (folder / part).mkdir()
    positives = []
    for index in range(count):
        pixels = generator.integers(60, 140, (SIDE, SIDE, 3))
        there = [c for c in range(len(COLORS)) if generator.random() < 0.35]
        for c in there:
            top, left = generator.integers(0, SIDE - 9, 2)
            pixels[top : top + 9, left : left + 9] = np.array(list(COLORS.values())[c]) + generator.integers(-20, 20, 3)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / part / f"{index:03d}.png")
        positives.append(there)
    np.save(folder / f"{part}.npy", [[1 if c in there else -1 for c in range(len(COLORS))] for there in positives])
    return read_shapes(folder, part)


def read_shapes(folder, part):
    """The complete table of pictures that are written already."""
    states = np.load(folder / f"{part}.npy")
    names = [f"{part}/{index:03d}.png" for index in range(len(states))]
    table = LabelTable.from_states(names, tuple(COLORS), states, NEGATIVE)
    return replace(table, root=folder, source=f"{part}.csv")


def write_weights(folder):
    """Weights of the tiny network, trained for a moment on complete labels of other pictures, as tiny.safetensors."""
    table = write_shapes(folder, "pretraining", 240, seed=2)
    torch.manual_seed(0)
    classifier = create_classifier("positively_tiny", len(COLORS), "none", SIDE, head_options={"pooling": "max"})
    pixels = np.stack([np.asarray(Image.open(path)) for path in table.paths])
    images, states = torch.from_numpy(pixels).permute(0, 3, 1, 2), torch.from_numpy(table.states())
    optimizer = torch.optim.Adam(classifier.parameters(), lr=1e-2)
    for rows in torch.arange(240).repeat(8).split(40):
        optimizer.zero_grad()
        bce(classifier(images[rows]), states[rows]).backward()
        optimizer.step()
    save_file(classifier.backbone.network.state_dict(), folder / "tiny.safetensors")


def settings(method, depth, folder, **changes):
    """Configuration under which a method learns the set in seconds."""
    schedule = {"probe": (20, 3e-2), "tail": (8, 1e-2), "finetune": (12, 5e-3)}[depth]
    chosen = {
        "method": method,
        "depth": depth,
        "backbone": "positively_tiny",
        "weights": "none" if depth == "finetune" else str(folder / "tiny.safetensors"),
        "features": str(folder / "features"),
        "image_size": SIDE,
        "head_options": {"pooling": "max"},
        "augment": "none",
        "epochs": schedule[0],
        "batch_size": 32,
        "lr": schedule[1],
        "ema": 0.9,
        "known_ratio": 0.5,
        "positives_only": method != "bce",
        "options": OPTIONS.get(method, {}),
    }
    return TrainConfig(**{**chosen, **changes})
