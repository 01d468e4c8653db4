"""Maps that are stored whole: large ones are averaged first, once for all heads that look at positions."""

from torch import Tensor
from torch.nn.functional import avg_pool2d

from positively.models.heads.base import Head

# Maps from this side on are averaged 2×2: 448 px give a ResNet 14×14 positions, of which the reference makes 7×7.
LARGE_SIDE = 14


class MapHead(Head):
    """A head that looks at positions: all that do store the same."""

    @property
    def feature_key(self) -> str:
        """The whole map, averaged where it is large."""
        return f"map below {LARGE_SIDE}"

    def pool(self, feature_map: Tensor) -> Tensor:
        """Average B×C×H×W 2×2 until a side is below 14; smaller maps pass through."""
        while min(feature_map.shape[2:]) >= LARGE_SIDE:
            feature_map = avg_pool2d(feature_map, 2, ceil_mode=True)  # ceil: the edge of an odd map is not lost
        return feature_map
