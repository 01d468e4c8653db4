"""Maps that are stored whole: large ones are averaged first, once for all heads that look at positions."""

from torch import Tensor
from torch.nn.functional import avg_pool2d

# Maps from this side on are averaged 2×2: 448 px give a ResNet 14×14 positions, of which the reference makes 7×7.
LARGE_SIDE = 14
LARGE_MAP_KEY = f"map below {LARGE_SIDE}"


def average_large_map(feature_map: Tensor) -> Tensor:
    """Average B×C×H×W 2×2 until a side is below 14; smaller maps pass through."""
    while min(feature_map.shape[2:]) >= LARGE_SIDE:
        feature_map = avg_pool2d(feature_map, 2, ceil_mode=True)  # ceil: the edge of an odd map is not lost
    return feature_map
