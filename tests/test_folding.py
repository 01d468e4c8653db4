"""A folded LgConv gives what the unfolded one gives, with fewer multiplications."""

import copy

import pytest
import timm
import torch
from timm.layers.conv2d_same import Conv2dSame
from timm.layers.std_conv import StdConv2d
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from positively.models import LgConv, add_lgconv, fold_lgconv
from positively.models.folding import FoldedLgConv
from test_lgconv import loud


def lived(block: nn.Module) -> nn.Module:
    """With statistics that are not those of the start."""
    for module in block.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.5)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
    return block


@pytest.mark.parametrize(
    "options",
    [
        {"padding": 1},
        {"padding": 1, "bias": False},
        {"padding": 1, "stride": 2},
        {"padding": 1, "stride": (2, 1)},
        {"padding": 2, "dilation": 2},
        {"padding": "same"},
    ],
    ids=str,
)
def test_a_folded_block_gives_the_same(options):
    torch.manual_seed(0)
    block = lived(loud(LgConv(nn.Conv2d(32, 48, 3, **options)))).eval()
    folded = FoldedLgConv(block)
    for size in [(8, 8), (7, 5), (1, 1)]:
        x = torch.randn(2, 32, *size)
        torch.testing.assert_close(folded(x), block(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "conv, is_folded",
    [
        (Conv2dSame(32, 32, 3, stride=1), True),
        (Conv2dSame(32, 32, 3, stride=2), False),
        (StdConv2d(32, 32, 3, padding=1), False),
    ],
    ids=["same", "same, stride 2", "standardised"],
)
def test_what_cannot_be_folded_stays_as_it_is(conv, is_folded):
    torch.manual_seed(0)
    network = lived(loud(nn.Sequential(LgConv(conv)))).eval()
    folded = fold_lgconv(copy.deepcopy(network))
    assert isinstance(folded[0], FoldedLgConv) == is_folded
    for size in (8, 7):
        x = torch.randn(2, 32, size, size)
        torch.testing.assert_close(folded(x), network(x), rtol=1e-4, atol=1e-4)


def test_a_whole_network_gives_the_same_for_three_percent_more_than_without():
    torch.manual_seed(0)
    plain = timm.create_model("resnet50", num_classes=5).eval()
    network = lived(add_lgconv(copy.deepcopy(plain)))
    for module in network.modules():  # branches as loud as training makes them
        if isinstance(module, LgConv):
            nn.init.uniform_(module.global_branch.norm.weight, -0.1, 0.1)
    folded = fold_lgconv(copy.deepcopy(network))
    images = torch.randn(2, 3, 96, 96)
    with torch.inference_mode():
        torch.testing.assert_close(folded(images), network.eval()(images), rtol=1e-4, atol=1e-4)
    assert not any(isinstance(module, LgConv) for module in folded.modules())
    assert not any(parameter.requires_grad for name, parameter in folded.named_parameters() if ".branch." in name)

    def flops(model):
        with FlopCounterMode(display=False) as counter, torch.inference_mode():
            model(torch.zeros(1, 3, 224, 224))
        return counter.get_total_flops()

    assert flops(network) / flops(plain) > 1.05 and flops(folded) / flops(plain) < 1.03
