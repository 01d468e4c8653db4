"""``positively_tiny``: four convolutions, for tests and the paper demo.

timm's smallest networks downsample by 16 first, which loses digits of twelve pixels. This network learns scenes of 48
pixels from scratch in half a minute on two cores. It is registered in timm.
"""

from typing import Any

from timm.models import register_model
from torch import Tensor, nn

__all__ = ["positively_tiny"]


class Tiny(nn.Module):
    """Network from images (B, 3, H, W) to maps (B, 96, H/4, W/4)."""

    num_features = 96

    def __init__(self, widths: tuple[int, ...] = (16, 32, 64, 96), pooled: int = 2) -> None:
        super().__init__()
        self.stages = nn.Sequential()
        channels = 3
        for index, width in enumerate(widths):
            layers: list[nn.Module] = [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)]
            layers += [nn.ReLU(), nn.MaxPool2d(2)] if index < pooled else [nn.ReLU()]
            self.stages.append(nn.Sequential(*layers))
            channels = width
        reductions = [2 ** min(index + 1, pooled) for index in range(len(widths))]
        self.feature_info = [
            {"num_chs": width, "reduction": reduction, "module": f"stages.{index}"}
            for index, (width, reduction) in enumerate(zip(widths, reductions, strict=True))
        ]

    def forward_features(self, images: Tensor) -> Tensor:
        """Feature map of images."""
        features: Tensor = self.stages(images)
        return features

    def forward(self, images: Tensor) -> Tensor:
        """Same as `forward_features`: there is no classifier."""
        return self.forward_features(images)


@register_model
def positively_tiny(pretrained: bool = False, num_classes: int = 0, **options: Any) -> Tiny:
    """Create the network; there are no pretrained weights."""
    return Tiny()
