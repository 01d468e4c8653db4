"""The first ResNets: in a block that halves the map, the stride is on the first 1×1 convolution.

timm's (like torchvision's) have it on the 3×3 convolution. Many published weights come from the original; they have the
same names and shapes, and lose accuracy in the other network without a word. ``resnet50_v1`` and ``resnet101_v1`` stand
in timm's registry, so that they are backbones like any other. They bring no weights of their own: pass a file.
"""

from typing import Any

from timm.data.constants import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from timm.models import ResNet, build_model_with_cfg, generate_default_cfgs, register_model
from timm.models.resnet import Bottleneck

__all__ = ["resnet50_v1", "resnet101_v1"]

_CONFIG = {
    "num_classes": 1000,
    "input_size": (3, 224, 224),
    "pool_size": (7, 7),
    "interpolation": "bicubic",
    "mean": IMAGENET_DEFAULT_MEAN,
    "std": IMAGENET_DEFAULT_STD,
    "first_conv": "conv1",
    "classifier": "fc",
}

# timm looks for this name when a model is registered.
default_cfgs = generate_default_cfgs({"resnet50_v1.untrained": _CONFIG, "resnet101_v1.untrained": _CONFIG})


def _create(name: str, layers: tuple[int, ...], pretrained: bool, **options: Any) -> ResNet:
    network = build_model_with_cfg(ResNet, name, pretrained, block=Bottleneck, layers=layers, **options)
    for stage in ("layer2", "layer3", "layer4"):
        block: Any = network.get_submodule(f"{stage}.0")
        block.conv1.stride, block.conv2.stride = block.conv2.stride, block.conv1.stride
    return network


@register_model
def resnet50_v1(pretrained: bool = False, **options: Any) -> ResNet:
    """ResNet-50 as first published."""
    return _create("resnet50_v1", (3, 4, 6, 3), pretrained, **options)


@register_model
def resnet101_v1(pretrained: bool = False, **options: Any) -> ResNet:
    """ResNet-101 as first published."""
    return _create("resnet101_v1", (3, 4, 23, 3), pretrained, **options)
