"""ResNets as first published: in a downsampling block, the first 1×1 convolution has the stride.

In timm and torchvision the 3×3 convolution has it. Many published weights belong to the original; they have the same
names and shapes, and silently lose accuracy in the other network. ``resnet50_v1`` and ``resnet101_v1`` are registered
in timm. They have no pretrained weights; pass a file.
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

# timm looks up this name when a model is registered.
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
