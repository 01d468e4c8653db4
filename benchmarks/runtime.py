"""Frozen networks on a CPU: ONNX Runtime with one image per pass on every core, compared with batches in torch.

Run as ``python -m benchmarks.runtime`` from the root of the project. Needs the extra ``[onnx]``.
"""

from __future__ import annotations

import torch

from benchmarks.timing import measure, ratio_table
from positively.cli.process import prepare_process

SIZE, BATCH = 224, 32
NETWORKS = ("tf_efficientnet_lite0", "resnet50", "vit_small_patch16_224", "convnext_tiny")


@torch.inference_mode()
def main() -> None:
    prepare_process()
    from positively.models import create_classifier
    from positively.models.onnx import OnnxNetwork

    images = torch.randint(0, 256, (BATCH, SIZE, SIZE, 3), dtype=torch.uint8).permute(0, 3, 1, 2)
    for name in NETWORKS:
        classifier = create_classifier(name, 80, "none", SIZE, depth="probe").eval()
        classifier = classifier.to(memory_format=torch.channels_last)
        network = OnnxNetwork(classifier, SIZE)
        tasks = {"ONNX Runtime": lambda run=network: run(images), "torch": lambda run=classifier: run(images)}
        print(ratio_table(f"{BATCH} images, {name}", measure(tasks)))
        print(f"largest relative difference: {network.difference_to(classifier, SIZE):.1g}\n", flush=True)


if __name__ == "__main__":
    main()
