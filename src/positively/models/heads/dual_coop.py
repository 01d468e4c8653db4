"""DualCoOp's head (Sun et al., NeurIPS 2022): compares every position of CLIP's map with two texts per class.

A class has a positive and a negative prompt, [SOS] [16 learned tokens] [name] [.] [EOS], encoded by CLIP's frozen text
tower. With unit vectors x_p of the positions and t⁺, t⁻ of the texts of a class:

    M±_p = 20 · ⟨x_p, t±⟩,    w = softmax_p(M⁺),    logit = 5 · Σ_p w_p (M⁺_p − M⁻_p)

The authors apply a softmax to the two sums, which equals the sigmoid of their difference. Positions are projected by
CLIP's attention pool without its attention, with bicubically resized position embeddings.
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
    """DualCoOp head: similarity of image positions to two learned prompts per class.

    Takes feature maps (B, C, H, W) or projected positions (B, 1, P, d), and returns logits (B, classes).

    Only the prompts are trained. The text tower is not part of the head: in training, prompts are encoded in every
    step. ``texts`` holds their encodings as of the last switch to eval mode or load of weights, and is saved with the
    head, so that a saved run predicts without the text tower.
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
        """Create prompts and projection; `connect` and `setup` fill them.

        Args:
            channels: Number of channels of the map.
            classes: Number of classes.
            text_model: Text tower that belongs to the backbone: a folder, or a name on the Hugging Face hub, with
                weights and tokenizer as saved by transformers or OpenCLIP. Default: the repository of the backbone.
            prompt_length: Number of learned tokens per prompt.
            class_specific: Whether every class has its own prompts, or all classes share one pair.
            embedding_size: Size of a text embedding; set when a saved run is loaded.
            token_width: Size of a token; set when a saved run is loaded.
            side: Side of CLIP's position grid; set when a saved run is loaded.
        """
        super().__init__()
        self.text_model = text_model
        self._tower: TextTower | None = None
        self._read: Tensor | None = None  # the prompts that `texts` was computed from
        owners = classes if class_specific else 1
        self.prompts = nn.Parameter(torch.empty(2, owners, prompt_length, token_width))
        self.register_buffer("texts", torch.zeros(2, classes, embedding_size))
        self.register_buffer("projection", torch.zeros(embedding_size, channels))
        self.register_buffer("offset", torch.zeros(embedding_size, side, side))
        self.register_load_state_dict_post_hook(_after_loading)  # type: ignore[no-untyped-call]
        self.start("default")

    @property
    def feature_key(self) -> str:
        """Digest of the projection, which is not part of the weights of the backbone."""
        digest = hashlib.blake2b(digest_size=8)
        for tensor in (self.projection, self.offset):
            digest.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
        return f"projected {digest.hexdigest()}"

    def connect(self, backbone: Backbone) -> None:
        """Take the projection of the backbone's attention pool, and find its text tower."""
        projection, offset = dense_projection(backbone)
        self.text_model = self.text_model or pretrained_config(backbone.network).get("hf_hub_id")
        self.projection, self.offset = projection.to(self.projection), offset.to(self.offset)
        self.saved_options = {**self.saved_options, "embedding_size": len(offset), "side": offset.shape[-1]}

    def setup(self, table: LabelTable) -> None:
        """Load the text tower and create the prompts of the classes."""
        if self.text_model is None:
            raise ConfigError(
                "Head 'dual-coop' needs the text tower that belongs to the backbone. Pass "
                f"{option('head_options.text_model', 'FOLDER')}, a folder or a name on the Hugging Face hub."
            )
        tower = TextTower(self.text_model, table.classes, self.prompts.shape[2])
        if tower.size != len(self.projection):
            raise ConfigError(
                f"The text tower {self.text_model!r} has {tower.size} dimensions, and the backbone "
                f"{len(self.projection)}: they do not belong to the same CLIP model."
            )
        self._tower, self._read = tower, None
        self.texts = self.texts.new_zeros(2, len(table.classes), tower.size)
        self.prompts = nn.Parameter(self.prompts.new_empty(*self.prompts.shape[:3], tower.width))
        self.saved_options = {**self.saved_options, "text_model": None, "token_width": tower.width}
        self.start("default")

    def reset_parameters(self) -> None:
        """Draw the prompts from N(0, 0.02²)."""
        nn.init.normal_(self.prompts, std=_PROMPT_SPREAD)

    def train(self, mode: bool = True) -> Self:
        """Set training mode; when switching to eval mode, encode the current prompts."""
        if not mode:
            self.read_prompts()
        return super().train(mode)

    @torch.inference_mode(False)
    @torch.no_grad()
    def read_prompts(self) -> None:
        """Update ``texts`` if there is a text tower and the prompts have changed."""
        if self._tower is None or (self._read is not None and torch.equal(self._read, self.prompts)):
            return
        self.texts.copy_(self._tower.encode(self.prompts))
        self._read = self.prompts.detach().clone()

    def pool(self, feature_map: Tensor) -> Tensor:
        """Project (B, C, H, W) to unit vectors (B, 1, P, d). Inputs with one channel are already projected."""
        if feature_map.shape[1] == 1:
            return feature_map
        offset, size = self.offset, feature_map.shape[2:]
        if offset.shape[1:] != size:
            offset = F.interpolate(offset[None], size, mode="bicubic", align_corners=False)[0]
        projected = F.conv2d(feature_map, self.projection[:, :, None, None]) + offset
        return F.normalize(projected.flatten(2).transpose(1, 2), dim=-1)[:, None]

    def forward(self, features: Tensor) -> Tensor:
        """Logits of a map or of projected positions."""
        texts = self._tower.encode(self.prompts) if self.training and self._tower is not None else self.texts
        positions = self.pool(features)[:, 0].to(texts.dtype)
        maps = COSINE_SCALE * F.linear(positions, texts.flatten(0, 1))
        # Softmax over positions in at least float32, also under mixed precision.
        positive, negative = maps.to(torch.promote_types(maps.dtype, torch.float32)).chunk(2, -1)
        return SUM_SCALE * (positive.softmax(1) * (positive - negative)).sum(1)


def _after_loading(head: DualCoOpHead, keys: Any) -> None:
    """Recompute texts after loading: averaged weights contain averaged texts, which do not belong to the prompts."""
    head._read = None
    head.read_prompts()
