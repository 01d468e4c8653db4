"""Heads with a class graph as methods: binary cross-entropy over the known labels with such a head."""

from __future__ import annotations

from positively.finetune import LossMethod
from positively.losses import bce
from positively.options import options_of


class MLGCNMethod(LossMethod):
    """ML-GCN (Chen, Wei, Wang, Guo, CVPR 2019): classifiers produced by graph convolutions over word vectors."""

    loss_name, head = "bce", "ml-gcn"
    Options = options_of(bce)


class SSGRLMethod(LossMethod):
    """SSGRL (Chen, Xu, Hui, Wu, Lin, ICCV 2019): one feature per class by attention, then a gated graph network.

    The head's defaults are the sizes of its later users; those of SSGRL are ``width`` 2048 and ``attention_width``
    1024.
    """

    loss_name, head = "bce", "semantic-graph"
    Options = options_of(bce)
