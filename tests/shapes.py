"""A set that every right method learns: coloured squares on noise, half of the positive tags known, no negative.

An untrained network ranks the test pictures little better than chance (0.34 mAP, the share of pictures with a class),
below :data:`UNTRAINED` on average over seeds; a method that learns reaches :data:`LEARNED`.
"""

from dataclasses import replace

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from positively.config import TrainConfig
from positively.embedding import Preprocessing, preprocessing_metadata
from positively.labels import NEGATIVE, LabelTable

COLORS = {"red": (220, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 220), "yellow": (220, 200, 30)}
SIDE, LEARNED, UNTRAINED = 24, 0.9, 0.65
# The bounded surrogate is known to end where everything is negative: it is no mistake of the implementation.
OPTIONS = {name: {"surrogate": "logistic", "label_frequency": 0.5} for name in ("upu", "nnpu")}
# As a benchmark gives it; the estimate of the closed form is single precision, whatever the network's is.
OPTIONS |= {name: {"label_frequency": 0.5} for name in ("epr", "role")}
# What a head is told, so that it learns the set in seconds: the same as published, in small.
HEAD_OPTIONS = {
    "linear": {"pooling": "max"},
    "kernel": {"pooling": "max"},
    "semantic-graph": {"width": 32, "attention_width": 16},
    "ml-gcn": {"width": 32},
    "cop": {"pooling": "max", "width": 32},
    "dual-coop": {"prompt_length": 4},
}


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


def write_backbone(path):
    """A backbone without torch: one convolution that sees patches of one colour, and how far they differ."""
    preprocessing = Preprocessing(SIDE, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    opponents = [(2, -1, -1), (-1, 2, -1), (-1, -1, 2), (1, 1, -2), (1, -2, 1), (-2, 1, 1), (1, 1, 1), (-1, -1, -1)]
    colors, biases = np.repeat(np.array(opponents, np.float32), 3, axis=0), np.tile([0.0, -0.5, -1.0], len(opponents))
    patch = np.repeat(np.repeat(colors[:, :, None, None] / 36, 6, axis=2), 6, axis=3)
    tensors = {"weight": patch, "bias": biases.astype(np.float32)}
    nodes = [
        helper.make_node("Conv", ["images", "weight", "bias"], ["patches"]),
        helper.make_node("Relu", ["patches"], ["map"]),
    ]
    shapes = {"images": ["batch", 3, SIDE, SIDE], "map": ["batch", len(biases), SIDE - 5, SIDE - 5]}
    images, seen = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items())
    stored = [numpy_helper.from_array(values, name) for name, values in tensors.items()]
    graph = helper.make_graph(nodes, "colors", [images], [seen], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    helper.set_model_props(model, preprocessing_metadata(preprocessing))
    onnx.save(model, path)


def frozen(folder, **more):
    """Options of the backbone that needs no torch; its embeddings are stored."""
    backbone, features = str(folder / "colors.onnx"), str(folder / "frozen-features")
    return {"backbone": backbone, "cache": features, "head_options": {"pooling": "max"}} | more


def write_weights(folder):
    """Weights of two networks, trained for a moment on complete labels of other pictures.

    tiny.safetensors is the tiny network's; tiny_clip.safetensors is a tiny CLIP's, and text/ its text tower.
    """
    import timm
    import torch
    from safetensors.torch import save_file

    import tiny_clip
    from positively.models import create_classifier

    table = write_shapes(folder, "pretraining", 240, seed=2)
    pixels = np.stack([np.asarray(Image.open(path)) for path in table.paths])
    images, states = torch.from_numpy(pixels).permute(0, 3, 1, 2), torch.from_numpy(table.states())
    torch.manual_seed(0)
    classifier = create_classifier("positively_tiny", len(COLORS), "none", SIDE, head_options={"pooling": "max"})
    _learn(classifier, classifier.parameters(), images, states)
    save_file(classifier.backbone.network.state_dict(), folder / "tiny.safetensors")
    torch.manual_seed(0)
    network = timm.create_model("tiny_clip")
    texts = torch.nn.Parameter(torch.randn(2, len(COLORS), tiny_clip.EMBEDDING))
    _learn(lambda rows: tiny_clip.logits(network, texts, rows), [*network.parameters(), texts], images, states)
    save_file(network.state_dict(), folder / "tiny_clip.safetensors")
    tiny_clip.write_text_tower(folder / "text")


def _learn(network, parameters, images, states):
    import torch

    from positively.losses import bce

    optimizer = torch.optim.Adam(parameters, lr=1e-2)
    for rows in torch.arange(240).repeat(8).split(40):
        optimizer.zero_grad()
        bce(network(images[rows]), states[rows]).backward()
        optimizer.step()


def pretrained(folder, **more):
    """Options of the tiny network with its weights, whose features are stored."""
    return {
        "backbone": "positively_tiny",
        "weights": str(folder / "tiny.safetensors"),
        "image_size": SIDE,
        "cache": str(folder / "features"),
        "head_options": {"pooling": "max"},
    } | more


def settings(method, depth, folder, **changes):
    """Configuration under which a method learns the set in seconds."""
    from positively.finetune.methods import METHODS, create_method
    from positively.models import HEADS

    schedule = {"probe": (20, 3e-2), "tail": (8, 1e-2), "finetune": (12, 5e-3)}[depth]
    head = (None if method == "auto" else METHODS[method].head) or "linear"
    is_clip = HEADS[head].needs_backbone
    from_nothing = depth == "finetune" and method != "distill"  # whose teacher is solved on what the network knows
    chosen = {
        "method": method,
        "depth": depth,
        "backbone": "tiny_clip" if is_clip else "positively_tiny",
        "weights": "none" if from_nothing else str(folder / f"{'tiny_clip' if is_clip else 'tiny'}.safetensors"),
        "cache": str(folder / "features"),
        "image_size": SIDE,
        "head_options": HEAD_OPTIONS.get(head, {}) | ({"text_model": str(folder / "text")} if is_clip else {}),
        "augment": "none",
        # Later, SPLC calls most unknown labels positive here.
        "epochs": 10 if (method, depth) == ("splc", "probe") else schedule[0],
        "batch_size": 32,
        "lr": schedule[1],
        "ema": 0.9,
        "known_ratio": 0.5,
        "positives_only": method == "auto" or not create_method(method).needs_negatives,
        "method_options": OPTIONS.get(method, {}),
    }
    return TrainConfig(**{**chosen, **changes})
