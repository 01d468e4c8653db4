"""Models: backbones from timm, LgConv, heads, and the classifier built from them."""

from positively.models.backbones import Backbone, check_weights, create_backbone, find_backbone
from positively.models.classifier import Classifier, Depth, Trainable, create_classifier
from positively.models.folding import fold_lgconv
from positively.models.heads import (
    HEADS,
    CoProjectionHead,
    DisentangledHead,
    DualCoOpHead,
    Head,
    KernelHead,
    LinearHead,
    MLGCNHead,
    SemanticGraphHead,
    Start,
    check_word_vectors,
    head_options,
    read_word_vectors,
    register_head,
    unit_length,
)
from positively.models.lgconv import LgConv, add_lgconv
from positively.models.resnet_v1 import resnet50_v1, resnet101_v1
from positively.models.tiny import positively_tiny

__all__ = [
    "HEADS",
    "Backbone",
    "Classifier",
    "CoProjectionHead",
    "Depth",
    "DisentangledHead",
    "DualCoOpHead",
    "Head",
    "KernelHead",
    "LgConv",
    "LinearHead",
    "MLGCNHead",
    "SemanticGraphHead",
    "Start",
    "Trainable",
    "add_lgconv",
    "check_weights",
    "check_word_vectors",
    "create_backbone",
    "create_classifier",
    "find_backbone",
    "fold_lgconv",
    "head_options",
    "positively_tiny",
    "read_word_vectors",
    "register_head",
    "resnet50_v1",
    "resnet101_v1",
    "unit_length",
]
