"""Exported networks: ONNX Runtime in float32 and int8 compared with torch, and LgConv compared with a plain network.

Run as ``python -m benchmarks.export [LITE0.safetensors]`` from the root of the project. Needs the extra ``[torch]``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import timm
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.timing import measure, ratio_table
from positively.embedding.onnx import example_pixels, open_session
from positively.export.int8 import quantize
from positively.machine import thread_count
from positively.models import add_lgconv, create_classifier, fold_lgconv
from positively.models.exporting import classifier_program
from positively.models.lgconv import GlobalBranch
from positively.models.padding import SIZE_STEP
from positively.runs.network import is_any_size

SIZE, BATCH, CLASSES = 224, 16, 80
NETWORKS = [
    ("tf_efficientnet_lite0", {"head": "linear"}),
    ("tf_efficientnet_lite0", {"head": "kernel", "head_options": {"landmarks": 2000}}),
    ("resnet50", {"lgconv": True}),
    ("vit_small_patch16_224", {}),
]


def flops(network: nn.Module) -> int:
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        network(torch.zeros(1, 3, SIZE, SIZE))
    return counter.get_total_flops()


@torch.inference_mode()
def lgconv() -> None:
    torch.manual_seed(0)
    networks = {"plain ResNet-101": timm.create_model("resnet101").eval()}
    networks["with LgConv"] = add_lgconv(timm.create_model("resnet101")).eval()
    networks["with LgConv, folded"] = fold_lgconv(add_lgconv(timm.create_model("resnet101")))
    images = torch.rand(4, 3, SIZE, SIZE)
    networks = {name: network.to(memory_format=torch.channels_last) for name, network in networks.items()}
    tasks = {name: (lambda network=network: network(images)) for name, network in networks.items()}
    print(ratio_table(f"4 images of {SIZE} px", measure(tasks, repeats=7)))
    plain = flops(networks["plain ResNet-101"])
    print(", ".join(f"{name} {flops(network) / plain:.3f} × FLOPs" for name, network in networks.items()), end="\n\n")


def export(name: str, options: dict[str, object], weights: str) -> None:
    torch.manual_seed(0)
    classifier = create_classifier(name, CLASSES, weights=weights, image_size=SIZE, **options).eval()
    if options.get("head") == "kernel":  # landmarks like those of images, and weights that matter
        nn.init.uniform_(classifier.head.landmarks, 0, 0.05)
    for branch in classifier.modules():
        if isinstance(branch, GlobalBranch):
            nn.init.uniform_(branch.norm.weight, -0.1, 0.1)
    program = classifier_program(classifier, np.full(CLASSES, 0.5), [f"class {c}" for c in range(CLASSES)], "linear")
    with tempfile.TemporaryDirectory() as folder:
        exact, small = Path(folder) / "model.onnx", Path(folder) / "model-int8.onnx"
        program.save(str(exact))
        quantize(program.model_proto, iter([example_pixels(BATCH, SIZE, SIZE)]), small)
        session, integers = open_session(exact, thread_count()), open_session(small, thread_count())
    worst, network = 0.0, classifier.to(memory_format=torch.channels_last)
    shapes = [(batch, SIZE, SIZE) for batch in (1, 2, 5, BATCH)] + [(2, SIZE + SIZE_STEP, SIZE)] * is_any_size(
        program.model_proto
    )
    with torch.inference_mode():
        for batch, height, width in shapes:
            images = torch.rand(batch, 3, height, width)
            (scores,) = session.run(["scores"], {"images": images.numpy()})
            worst = max(worst, float(np.abs(scores - network(images).sigmoid().numpy()).max()))
        images = torch.rand(BATCH, 3, SIZE, SIZE)
        tasks = {
            "torch": lambda: network(images),
            "ONNX Runtime": lambda: session.run(None, {"images": images.numpy()}),
            "ONNX Runtime, int8": lambda: integers.run(None, {"images": images.numpy()}),
        }
        given = ", ".join(f"{key} {value}" for key, value in options.items())
        print(ratio_table(f"{BATCH} images, {name} {given}", measure(tasks)))
    print(f"largest difference of an exact score: {worst:.1g}", end="\n\n")


def main() -> None:
    lite = sys.argv[1] if len(sys.argv) > 1 else "none"
    lgconv()
    for name, options in NETWORKS:
        export(name, options, lite if "lite0" in name else "none")


if __name__ == "__main__":
    main()
