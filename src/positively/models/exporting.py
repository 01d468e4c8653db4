"""Networks of torch as ONNX files, so that the core runs them without torch: each is compared with torch first."""

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
"""Largest difference to torch, relative to the largest number given, with which a file is the same network."""
_BATCHES = (1, 2, 5)
_LARGEST_SIDE = 2048
_OUTPUTS = [SCORES, TAGS, EMBEDDING, LOGITS]
Thresholds = npt.NDArray[np.float64]
_SCOPES = "pkg.torch.onnx.name_scopes"


def export_backbone(name: str, weights: str, image_size: int | None, seed: int, path: Path) -> None:
    """Write a timm model without its classifier: normalised images → feature map.

    Args:
        name: The timm model.
        weights: 'pretrained', a .safetensors file, or 'none' for random ones.
        image_size: Side of the images; default: 224.
        seed: Seed of random weights.
        path: The file.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        backbone = create_backbone(name, weights, image_size or 224)
    write_backbone(backbone, path)


def write_backbone(backbone: Backbone, path: Path) -> None:
    """Write a backbone on the CPU as an ONNX file: normalised images → feature map.

    Raises:
        RunError: It cannot be exported, or the file does not give what torch gives.
    """
    module, any_size = _made_ready(backbone, backbone)
    program = _program(module, backbone, any_size, ["map"])
    preprocessing = Preprocessing(backbone.image_size, backbone.mean, backbone.std, backbone.interpolation)
    program.model.metadata_props.update(preprocessing_metadata(preprocessing))
    for node in program.model.graph:
        node.metadata_props.clear()
    program.save(str(path))
    _refuse_other(path, backbone.eval(), ["map"], backbone.image_size, backbone.name)


class _RunModule(nn.Module):
    """Images B×3×H×W, RGB in [0, 1] → scores, tags, mean features and logits."""

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
    """Write model.onnx of a run whose network learned, in the form of those of probes.

    Raises:
        RunError: The network cannot be exported, or the file does not give what torch gives; nothing is written.
    """
    classifier = load_network(run).cpu().eval()
    program = classifier_program(classifier, run.thresholds, run.classes, run.head)

    def write(temporary: Path) -> None:
        program.save(str(temporary))
        compared = _RunModule(classifier, run.thresholds)
        _refuse_other(temporary, compared, _OUTPUTS, classifier.backbone.image_size, str(run.path))

    write_with(run.folder.network, write)
    run.folder.record(run.folder.network)
    return run.folder.network


def classifier_program(classifier: Classifier, thresholds: Thresholds, classes: Sequence[str], head: str) -> Any:
    """Torch's ONNX program of a classifier, in the form of the graphs of probes.

    Args:
        classifier: The network, which stays as it is.
        thresholds: Score from which a tag is given.
        classes: Names of the classes.
        head: What the head is called.
    """
    backbone = classifier.backbone
    module, any_size = _made_ready(_RunModule(for_use(classifier), thresholds), backbone)
    program = _program(module, backbone, any_size, _OUTPUTS)
    for number, node in enumerate(program.model.graph):
        scopes = ast.literal_eval(node.metadata_props.get(_SCOPES, "[]"))
        if any(scope.endswith("backbone") for scope in scopes):
            node.name = f"{BACKBONE}{number}"
        node.metadata_props.clear()  # torch writes places on this machine into it
    preprocessing = Preprocessing(backbone.image_size, backbone.mean, backbone.std, backbone.interpolation)
    told = describe(classes, thresholds, preprocessing, backbone=backbone.name, head=head)
    program.model.metadata_props.update(told | preprocessing_metadata(preprocessing))
    return program


def _made_ready(module: nn.Module, backbone: Backbone) -> tuple[nn.Module, bool]:
    """A copy of a module for export, and whether it will take images of several sizes."""
    made = for_use(module)
    # A ViT has the positions of one size; any other network takes what it can halve.
    any_size = backbone.image_size % SIZE_STEP == 0 and not hasattr(backbone.network, "pos_embed")
    if any_size:
        pad_evenly(made)
    return made, any_size


def _program(module: nn.Module, backbone: Backbone, any_size: bool, outputs: list[str]) -> Any:
    """Torch's ONNX program for any number of images, of any size where that can be had."""
    side, size = torch.export.Dim, backbone.image_size
    if any_size:
        # An example whose sides differ, and that no stage brings down to one position: what is true of it alone would
        # become a rule of the graph.
        height = max(size, 4 * SIZE_STEP)
        most = _LARGEST_SIDE // SIZE_STEP
        shape = {0: side("batch"), 2: SIZE_STEP * side("rows", max=most), 3: SIZE_STEP * side("columns", max=most)}
        try:
            return to_onnx(module, torch.zeros(2, 3, height, height + SIZE_STEP), outputs, shape)
        except RunError:  # a network that is bound to its size without saying so
            pass
    return to_onnx(module, torch.zeros(2, 3, size, size), outputs, {0: side("batch")})


@torch.inference_mode()
def _refuse_other(path: Path, network: nn.Module, outputs: list[str], size: int, name: str) -> None:
    """Raise unless a file gives what torch gives, at several batch sizes."""
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
            if not difference <= _TOLERANCE:  # also where it is no number
                raise RunError(f"{name} cannot be exported: the ONNX file differs from torch by {difference:.2g}.")
