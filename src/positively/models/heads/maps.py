"""Base of heads that store whole maps. Large maps are averaged first, in the same way for all of them."""

from torch import Tensor
from torch.nn.functional import avg_pool2d

from positively.models.heads.base import Head

# Maps with sides from here on are averaged 2×2: a ResNet at 448 px gives 14×14, of which the reference makes 7×7.
LARGE_SIDE = 14


class MapHead(Head):
    """A head that uses positions. All such heads store the same map."""

    @property
    def feature_key(self) -> str:
        """The whole map, averaged if large."""
        return f"map below {LARGE_SIDE}"

    def pool(self, feature_map: Tensor) -> Tensor:
        """Average a map (B, C, H, W) 2×2 until a side is below 14; smaller maps are returned unchanged."""
        while min(feature_map.shape[2:]) >= LARGE_SIDE:
            feature_map = avg_pool2d(feature_map, 2, ceil_mode=True)  # ceil keeps the edge of odd maps
        return feature_map
