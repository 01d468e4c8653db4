"""Heads with a graph of the classes as whole systems: binary cross-entropy over the known labels, and the head."""

from __future__ import annotations

from positively.finetune import LossMethod
from positively.losses import bce
from positively.options import options_of


class MLGCNMethod(LossMethod):
    """ML-GCN (Chen, Wei, Wang, Guo, CVPR 2019): classifiers out of graph convolutions over word vectors."""

    loss_name, head = "bce", "ml-gcn"
    Options = options_of(bce)


class SSGRLMethod(LossMethod):
    """SSGRL (Chen, Xu, Hui, Wu, Lin, ICCV 2019): a feature for each class by attention, then a gated graph network.

    The head's own sizes are those of its later users; SSGRL's are ``width`` 2048 and ``attention_width`` 1024.
    """

    loss_name, head = "bce", "semantic-graph"
    Options = options_of(bce)
