"""DualCoOp's head (Sun et al., NeurIPS 2022): every position of CLIP's map is compared with two texts a class.

A class has a positive and a negative prompt, [SOS] [16 learned tokens] [name] [.] [EOS], read by CLIP's frozen text
tower. With unit features x_p of the positions and unit text features t⁺, t⁻ of a class:

    M±_p = 20 · ⟨x_p, t±⟩,    w = softmax_p(M⁺),    logit = 5 · Σ_p w_p (M⁺_p − M⁻_p)

The authors take a softmax over the two sums, which is the sigmoid of their difference. Positions are projected by
CLIP's attention pool without its attention, with its positions resized (bicubic).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from positively.errors import ConfigError, option
from positively.labels import LabelTable
from positively.models.attention_pool import dense_projection
from positively.models.heads.base import Head
from positively.models.text_tower import TextTower
from positively.models.weights import pretrained_config
from positively.options import Count

if TYPE_CHECKING:
    from positively.models.backbones import Backbone

COSINE_SCALE, SUM_SCALE = 20.0, 5.0
_PROMPT_SPREAD = 0.02


class DualCoOpHead(Head):
    """Feature map → logits, by the positions' closeness to two learned texts a class.

    Shapes: input B×C×H×W, or B×1×P×d of P positions that were projected before and stored; output B×classes.

    Only the prompts learn. The text tower is not part of the head: while it trains, prompts are read anew in every
    step; ``texts`` holds what was read when the head went to eval mode or got other weights, and is saved with it. So a
    saved run predicts without the text tower.
    """

    needs_backbone = True
    texts: Tensor
    projection: Tensor
    offset: Tensor

    def __init__(
        self,
        channels: int,
        classes: int,
        *,
        text_model: str | None = None,
        prompt_length: Count = 16,
        class_specific: bool = True,
        embedding_size: Count = 1,
        token_width: Count = 1,
        side: Count = 1,
    ) -> None:
        """Make room for prompts and projection; `connect` and `setup` fill it.

        Args:
            channels: Channels of the map.
            classes: Number of classes.
            text_model: The text tower that was trained with the backbone: a folder, or a name on the Hugging Face hub,
                with weights and tokenizer as transformers or OpenCLIP save them. Default: where timm has the backbone
                from, which is where OpenCLIP has its text tower.
            prompt_length: Learned tokens of a prompt.
            class_specific: Whether every class has prompts of its own, or all share one pair.
            embedding_size: Numbers of a text's feature: so a saved run is built again.
            token_width: Numbers of a token: so a saved run is built again.
            side: Positions a side that CLIP was trained with: so a saved run is built again.
        """
        super().__init__()
        self.text_model = text_model
        self._tower: TextTower | None = None
        self._read: Tensor | None = None  # the prompts of which `texts` are
        owners = classes if class_specific else 1
        self.prompts = nn.Parameter(torch.empty(2, owners, prompt_length, token_width))
        self.register_buffer("texts", torch.zeros(2, classes, embedding_size))
        self.register_buffer("projection", torch.zeros(embedding_size, channels))
        self.register_buffer("offset", torch.zeros(embedding_size, side, side))
        self.register_load_state_dict_post_hook(_after_loading)  # type: ignore[no-untyped-call]
        self.start("default")

    @property
    def feature_key(self) -> str:
        """Positions projected in this way; the projection is none of the backbone's weights."""
        digest = hashlib.blake2b(digest_size=8)
        for tensor in (self.projection, self.offset):
            digest.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
        return f"projected {digest.hexdigest()}"

    def connect(self, backbone: Backbone) -> None:
        """Take the projection of the backbone's attention pool, and look up where its text tower is."""
        projection, offset = dense_projection(backbone)
        self.text_model = self.text_model or pretrained_config(backbone.network).get("hf_hub_id")
        self.projection, self.offset = projection.to(self.projection), offset.to(self.offset)
        self.saved_options = {**self.saved_options, "embedding_size": len(offset), "side": offset.shape[-1]}

    def setup(self, table: LabelTable) -> None:
        """Load the text tower and make the prompts of the table's classes."""
        if self.text_model is None:
            raise ConfigError(
                "Head 'dual-coop' learns prompts of CLIP's text tower. Name the one that belongs to the backbone: "
                f"{option('head_options.text_model', 'FOLDER')}, a folder or a name on the Hugging Face hub."
            )
        tower = TextTower(self.text_model, table.classes, self.prompts.shape[2])
        if tower.size != len(self.projection):
            raise ConfigError(
                f"The text tower {self.text_model!r} gives {tower.size} numbers a text, and the backbone "
                f"{len(self.projection)} a position: they are not of one CLIP."
            )
        self._tower, self._read = tower, None
        self.texts = self.texts.new_zeros(2, len(table.classes), tower.size)
        self.prompts = nn.Parameter(self.prompts.new_empty(*self.prompts.shape[:3], tower.width))
        self.saved_options = {**self.saved_options, "text_model": None, "token_width": tower.width}
        self.start("default")

    def reset_parameters(self) -> None:
        """Prompts anew, from N(0, 0.02²)."""
        nn.init.normal_(self.prompts, std=_PROMPT_SPREAD)

    def train(self, mode: bool = True) -> Self:
        """Switch to training, or read the prompts as they are now and switch to use."""
        if not mode:
            self.read_prompts()
        return super().train(mode)

    @torch.inference_mode(False)
    @torch.no_grad()
    def read_prompts(self) -> None:
        """Bring ``texts`` up to the prompts, if there is a text tower and the prompts are others than before."""
        if self._tower is None or (self._read is not None and torch.equal(self._read, self.prompts)):
            return
        self.texts.copy_(self._tower.encode(self.prompts))
        self._read = self.prompts.detach().clone()

    def pool(self, feature_map: Tensor) -> Tensor:
        """Project B×C×H×W and bring every position to length 1: B×1×P×d; what has one channel was projected before."""
        if feature_map.shape[1] == 1:
            return feature_map
        offset, size = self.offset, feature_map.shape[2:]
        if offset.shape[1:] != size:
            offset = F.interpolate(offset[None], size, mode="bicubic", align_corners=False)[0]
        projected = F.conv2d(feature_map, self.projection[:, :, None, None]) + offset
        return F.normalize(projected.flatten(2).transpose(1, 2), dim=-1)[:, None]

    def forward(self, features: Tensor) -> Tensor:
        """Return logits of a map, or of positions that were projected before."""
        texts = self._tower.encode(self.prompts) if self.training and self._tower is not None else self.texts
        positions = self.pool(features)[:, 0].to(texts.dtype)
        maps = COSINE_SCALE * F.linear(positions, texts.flatten(0, 1))
        # The softmax over positions in float32 at least, whatever the precision around it.
        positive, negative = maps.to(torch.promote_types(maps.dtype, torch.float32)).chunk(2, -1)
        return SUM_SCALE * (positive.softmax(1) * (positive - negative)).sum(1)


def _after_loading(head: DualCoOpHead, keys: Any) -> None:
    """Averaged prompts come with an average of texts, which are not theirs."""
    head._read = None
    head.read_prompts()
