"""Export of networks to ONNX, so that the core can run them without torch. Each file is compared with torch."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from positively.embedding import Preprocessing, preprocessing_metadata
from positively.embedding.graph import BACKBONE, EMBEDDING
from positively.embedding.onnx import example_pixels, open_session
from positively.errors import RunError
from positively.files import write_with
from positively.models.backbones import Backbone, create_backbone
from positively.models.classifier import Classifier
from positively.models.onnx import for_use, to_onnx
from positively.models.padding import SIZE_STEP, pad_evenly
from positively.models.predictor import load_network
from positively.runs.network import LOGITS, SCORES, TAGS, describe

if TYPE_CHECKING:
    from positively.runs.run import Run

_TOLERANCE = 1e-4
"""Largest accepted difference to torch, relative to the largest output."""
_BATCHES = (1, 2, 5)
_LARGEST_SIDE = 2048
_OUTPUTS = [SCORES, TAGS, EMBEDDING, LOGITS]
Thresholds = npt.NDArray[np.float64]
_SCOPES = "pkg.torch.onnx.name_scopes"


def export_backbone(name: str, weights: str, image_size: int | None, seed: int, path: Path) -> None:
    """Export a timm model without its classifier: normalised images to feature map.

    Args:
        name: Name of the timm model.
        weights: 'pretrained', a .safetensors file, or 'none' for random weights.
        image_size: Side of the images; default: 224.
        seed: Seed of random weights.
        path: Path of the ONNX file.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        backbone = create_backbone(name, weights, image_size or 224)
    write_backbone(backbone, path)


def write_backbone(backbone: Backbone, path: Path) -> None:
    """Export a backbone to ONNX: normalised images to feature map.

    Args:
        backbone: The backbone, on the CPU.
        path: Path of the ONNX file.

    Raises:
        RunError: If the backbone cannot be exported, or the outputs of the file differ from those of torch.
    """
    module, any_size = _prepare(backbone, backbone)
    program = _program(module, backbone, any_size, ["map"])
    preprocessing = Preprocessing(backbone.image_size, backbone.mean, backbone.std, backbone.interpolation)
    program.model.metadata_props.update(preprocessing_metadata(preprocessing))
    for node in program.model.graph:
        node.metadata_props.clear()
    program.save(str(path))
    _check_outputs(path, backbone.eval(), ["map"], backbone.image_size, backbone.name)


class _RunModule(nn.Module):
    """Module from RGB images (B, 3, H, W) in [0, 1] to scores, tags, mean embeddings and logits."""

    thresholds: Tensor

    def __init__(self, classifier: Classifier, thresholds: Thresholds) -> None:
        super().__init__()
        self.classifier = classifier
        self.register_buffer("thresholds", torch.from_numpy(thresholds).float())

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        feature_map = self.classifier.feature_map(images)
        logits = self.classifier.head(feature_map)
        scores = logits.sigmoid()
        return scores, scores >= self.thresholds, feature_map.flatten(2).mean(2), logits


def write_run_network(run: Run) -> Path:
    """Export the network of a fine-tuned run to model.onnx, with the same outputs as that of a probe.

    Args:
        run: The run.

    Returns:
        Path of the file.

    Raises:
        RunError: If the network cannot be exported, or the outputs differ from those of torch. Nothing is written then.
    """
    classifier = load_network(run).cpu().eval()
    program = classifier_program(classifier, run.thresholds, run.classes, run.head)

    def write(temporary: Path) -> None:
        program.save(str(temporary))
        compared = _RunModule(classifier, run.thresholds)
        _check_outputs(temporary, compared, _OUTPUTS, classifier.backbone.image_size, str(run.path))

    write_with(run.folder.network, write)
    run.folder.record(run.folder.network)
    return run.folder.network


def classifier_program(classifier: Classifier, thresholds: Thresholds, classes: Sequence[str], head: str) -> Any:
    """Create the ONNX program of a classifier, with the same outputs as that of a probe.

    Args:
        classifier: The network, which is not changed.
        thresholds: Threshold of each class, shape (C,).
        classes: Class names.
        head: Name of the head.

    Returns:
        The ONNX program of torch.
    """
    backbone = classifier.backbone
    module, any_size = _prepare(_RunModule(for_use(classifier), thresholds), backbone)
    program = _program(module, backbone, any_size, _OUTPUTS)
    for number, node in enumerate(program.model.graph):
        scopes = ast.literal_eval(node.metadata_props.get(_SCOPES, "[]"))
        if any(scope.endswith("backbone") for scope in scopes):
            node.name = f"{BACKBONE}{number}"
        node.metadata_props.clear()  # contains paths of this machine
    preprocessing = Preprocessing(backbone.image_size, backbone.mean, backbone.std, backbone.interpolation)
    metadata = describe(classes, thresholds, preprocessing, backbone=backbone.name, head=head)
    program.model.metadata_props.update(metadata | preprocessing_metadata(preprocessing))
    return program


def _prepare(module: nn.Module, backbone: Backbone) -> tuple[nn.Module, bool]:
    """A copy of a module for export, and whether it may take images of different sizes."""
    made = for_use(module)
    # A ViT has position embeddings of one size. Other networks take any size that they can halve.
    any_size = backbone.image_size % SIZE_STEP == 0 and not hasattr(backbone.network, "pos_embed")
    if any_size:
        pad_evenly(made)
    return made, any_size


def _program(module: nn.Module, backbone: Backbone, any_size: bool, outputs: list[str]) -> Any:
    """Create the ONNX program for any batch size, and for any image size if possible."""
    side, size = torch.export.Dim, backbone.image_size
    if any_size:
        # The example has unequal sides and is large enough that no stage reduces it to one position. Otherwise the
        # exporter would turn properties of the example into constraints of the graph.
        height = max(size, 4 * SIZE_STEP)
        most = _LARGEST_SIDE // SIZE_STEP
        shape = {0: side("batch"), 2: SIZE_STEP * side("rows", max=most), 3: SIZE_STEP * side("columns", max=most)}
        try:
            return to_onnx(module, torch.zeros(2, 3, height, height + SIZE_STEP), outputs, shape)
        except RunError:  # the network has a fixed size without declaring it
            pass
    return to_onnx(module, torch.zeros(2, 3, size, size), outputs, {0: side("batch")})


@torch.inference_mode()
def _check_outputs(path: Path, network: nn.Module, outputs: list[str], size: int, name: str) -> None:
    """Raise RunError unless a file gives the same outputs as torch, for several batch sizes."""
    session = open_session(path)
    for batch in _BATCHES:
        images = example_pixels(batch, size, size)
        expected = network(torch.from_numpy(images))
        given = session.run(outputs, {session.get_inputs()[0].name: images})
        for wanted, found in zip(expected if isinstance(expected, tuple) else (expected,), given, strict=True):
            if found.dtype == np.bool_:
                continue
            reference = wanted.float().numpy()
            difference = np.abs(found - reference).max() / max(float(np.abs(reference).max()), 1e-12)
            if not difference <= _TOLERANCE:  # true for NaN as well
                raise RunError(f"{name} cannot be exported: the ONNX file differs from torch by {difference:.2g}.")
