"""Images → logits: backbones from timm, LgConv, heads, and the classifier they make up."""

from positively.models.backbones import Backbone, create_backbone
from positively.models.classifier import Classifier, Depth, create_classifier
from positively.models.heads import HEADS, Head, LinearHead, SemanticGraphHead, Start, read_word_vectors
from positively.models.lgconv import LgConv, add_lgconv
from positively.models.resnet_v1 import resnet50_v1, resnet101_v1
from positively.models.tiny import positively_tiny

__all__ = [
    "HEADS",
    "Backbone",
    "Classifier",
    "Depth",
    "Head",
    "LgConv",
    "LinearHead",
    "SemanticGraphHead",
    "Start",
    "add_lgconv",
    "create_backbone",
    "create_classifier",
    "positively_tiny",
    "read_word_vectors",
    "resnet50_v1",
    "resnet101_v1",
]
