"""Images → logits: backbones from timm, LgConv, heads, and the classifier they make up."""

from positively.models.backbones import Backbone, create_backbone
from positively.models.classifier import Classifier, create_classifier
from positively.models.heads import LinearHead
from positively.models.lgconv import LgConv, add_lgconv
from positively.models.tiny import positively_tiny

__all__ = [
    "Backbone",
    "Classifier",
    "LgConv",
    "LinearHead",
    "add_lgconv",
    "create_backbone",
    "create_classifier",
    "positively_tiny",
]
