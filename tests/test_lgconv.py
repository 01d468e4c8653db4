"""LgConv: the branch is the paper's, it hardly changes a pretrained network, and it goes where it should."""

from __future__ import annotations

import copy

import pytest
import timm
import torch
from timm.layers.conv2d_same import Conv2dSame
from torch import Tensor, nn

from positively.errors import ConfigError
from positively.models import LgConv, add_lgconv
from positively.models.lgconv import GlobalBranch
from wording import naming

torch.set_num_threads(1)


def branch_by_the_paper(branch: GlobalBranch, x: Tensor) -> Tensor:
    """The steps one after the other, position by position, nothing moved or merged."""
    batch, channels, height, width = x.shape
    per_head = channels // branch.heads
    local = branch.reduce(x).clamp(min=0)
    average = torch.zeros_like(local)
    for row in range(height):
        for column in range(width):
            average += local[:, :, row, column][:, :, None, None] / (height * width)
    hidden = torch.cat([local, average], dim=1)
    aggregation = branch.aggregation(hidden).exp()
    broadcast = 1 / (1 + (-branch.broadcast(hidden)).exp())
    value = branch.value(x)
    carried = torch.zeros_like(x)
    for image in range(batch):
        for head in range(branch.heads):
            own = slice(head * per_head, (head + 1) * per_head)
            gathered = torch.zeros(per_head, dtype=x.dtype)
            for row in range(height):
                for column in range(width):
                    weight = aggregation[image, head, row, column] / aggregation[image, head].sum()
                    gathered += weight * value[image, own, row, column]
            for row in range(height):
                for column in range(width):
                    carried[image, own, row, column] = broadcast[image, head, row, column] * gathered
    return branch.norm(branch.projection(x + carried))


def loud(module: nn.Module) -> nn.Module:
    """Let the branches be heard, so that a comparison says something."""
    for branch in module.modules():
        if isinstance(branch, GlobalBranch):
            nn.init.uniform_(branch.norm.weight, 0.5, 1.5)
            nn.init.normal_(branch.norm.bias)
    return module


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("stride", [1, 2, (2, 1)])
@pytest.mark.parametrize("size", [(4, 4), (5, 3), (1, 6)])
def test_output_is_convolution_plus_the_branch_of_the_paper(
    size: tuple[int, int], stride: int | tuple[int, int], training: bool
) -> None:
    torch.manual_seed(0)
    conv = nn.Conv2d(32, 12, 3, padding=1, stride=stride, bias=False).double()
    block = loud(LgConv(conv, heads=8)).train(training)
    x = torch.randn(2, 32, *size, dtype=torch.double)
    expected = conv(x) + branch_by_the_paper(copy.deepcopy(block).global_branch, x)
    torch.testing.assert_close(block(x), expected)


def test_gradients_are_those_of_the_paper() -> None:
    torch.manual_seed(0)
    block = loud(LgConv(nn.Conv2d(32, 8, 3, padding=1).double()))
    x = torch.randn(2, 32, 3, 3, dtype=torch.double)
    names = [name for name, _ in block.global_branch.named_parameters()]
    merged = torch.autograd.grad(block.global_branch(x).square().sum(), list(block.global_branch.parameters()))
    plain = torch.autograd.grad(
        branch_by_the_paper(block.global_branch, x).square().sum(), list(block.global_branch.parameters())
    )
    for name, ours, theirs in zip(names, merged, plain, strict=True):
        torch.testing.assert_close(ours, theirs, msg=lambda text, name=name: f"{name}: {text}")


def test_resnet101_gets_33_branches_and_hardly_changes() -> None:
    torch.manual_seed(0)
    plain = timm.create_model("resnet101", pretrained=False).eval()
    for name, parameter in plain.named_parameters():
        if name.endswith("bn3.weight"):  # timm starts these at 0, which would hide the blocks
            nn.init.constant_(parameter, 0.2)
    wrapped = add_lgconv(copy.deepcopy(plain))
    assert sum(isinstance(module, LgConv) for module in wrapped.modules()) == 33
    added = sum(p.numel() for p in wrapped.parameters()) - sum(p.numel() for p in plain.parameters())
    assert added == 5_436_160
    assert not any(module.training for module in wrapped.modules())
    images = torch.randn(2, 3, 96, 96)
    with torch.no_grad():
        before, after = plain(images), wrapped(images)
    assert 0 < (before - after).abs().max() < 1e-3


def small_network(**options: object) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 48, 3, padding=1, **options))


def test_wrapping_twice_changes_nothing() -> None:
    once = add_lgconv(small_network())
    names = list(once.state_dict())
    assert list(add_lgconv(once).state_dict()) == names
    assert not any("conv.conv" in name or "global_branch.value.conv" in name for name in names)


def test_a_convolution_used_twice_stays_shared() -> None:
    conv = nn.Conv2d(32, 32, 3, padding=1)
    model = add_lgconv(nn.ModuleDict({"first": nn.Sequential(conv), "second": nn.Sequential(conv)}))
    assert isinstance(model["first"][0], LgConv)
    assert model["first"][0] is model["second"][0]


@pytest.mark.parametrize("heads, channels, expected", [(8, 64, 8), (8, 36, 6), (8, 37, 1), (4, 64, 4), (8, 35, 7)])
def test_heads_are_the_largest_divisor_of_the_channels(heads: int, channels: int, expected: int) -> None:
    branch = LgConv(nn.Conv2d(channels, 8, 3, padding=1), heads=heads).global_branch
    assert branch.heads == expected
    assert branch(torch.randn(1, channels, 4, 4)).shape == (1, 8, 4, 4)


def test_reduction_leaves_at_least_one_channel() -> None:
    assert LgConv(nn.Conv2d(32, 8, 3, padding=1), reduction=64).global_branch.reduce.out_channels == 1


def test_the_start_is_constant_or_drawn() -> None:
    constant = LgConv(nn.Conv2d(32, 64, 3, padding=1), scale=1e-3).global_branch.norm
    drawn = LgConv(nn.Conv2d(32, 64, 3, padding=1), init="normal").global_branch.norm
    assert torch.equal(constant.weight, torch.full((64,), 1e-3))
    assert 2e-5 < drawn.weight.std() < 5e-4
    assert drawn.weight.min() < 0
    assert not drawn.bias.any()


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(32, 32, 3, padding=1),
        nn.Conv2d(32, 32, 3, padding="same"),
        nn.Conv2d(32, 32, 3, padding=1, stride=2),
        nn.Conv2d(32, 32, 3, padding=2, dilation=2),
        nn.Conv2d(32, 32, 3, padding=2, dilation=2, stride=2),
        Conv2dSame(32, 32, 3, stride=2),
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [(8, 8), (7, 5), (6, 9)])
def test_every_wrapped_kind_keeps_its_output_size(conv: nn.Conv2d, size: tuple[int, int]) -> None:
    model = add_lgconv(nn.Sequential(copy.deepcopy(conv)))
    assert isinstance(model[0], LgConv)
    x = torch.randn(2, 32, *size)
    assert model(x).shape == conv(x).shape


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(32, 32, 1),
        nn.Conv2d(32, 32, 5, padding=2),
        nn.Conv2d(32, 32, 3),
        nn.Conv2d(31, 32, 3, padding=1),
        nn.Conv2d(32, 32, 3, padding=1, groups=32),
    ],
    ids=str,
)
def test_other_convolutions_stay_plain(conv: nn.Conv2d) -> None:
    model = nn.Sequential(conv, nn.Conv2d(32, 32, 3, padding=1))
    assert [isinstance(module, LgConv) for module in add_lgconv(model)] == [False, True]


@pytest.mark.parametrize("stem", ["conv1", "conv_stem", "stem", "stem_block"])
def test_stems_stay_plain(stem: str) -> None:
    layers = {
        stem: nn.Sequential(nn.Conv2d(32, 32, 3, padding=1)),
        "layer1": nn.Sequential(nn.Conv2d(32, 32, 3, padding=1)),
    }
    model = add_lgconv(nn.ModuleDict(layers))
    assert isinstance(model["layer1"][0], LgConv)
    assert not isinstance(model[stem][0], LgConv)


@pytest.mark.parametrize("name, reason", [("test_vit", "3×3"), ("efficientnet_lite0", "7 are grouped")])
def test_nothing_to_wrap_says_why_and_what_would_work(name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        add_lgconv(timm.create_model(name))
    assert "resnet101" in str(caught.value)


def test_options_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigError, match=naming("'constant'", "'normal'")):
        add_lgconv(small_network(), init="zero")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="head"):
        add_lgconv(small_network(), heads=0)


def test_state_dict_round_trip() -> None:
    torch.manual_seed(0)
    first = loud(add_lgconv(small_network(stride=2))).eval()
    second = add_lgconv(small_network(stride=2)).eval()
    second.load_state_dict(first.state_dict())
    x = torch.randn(2, 3, 9, 7)
    assert torch.equal(first(x), second(x))
    assert "2.conv.weight" in first.state_dict()
    assert "2.global_branch.norm.weight" in first.state_dict()


def test_branch_follows_dtype_and_device() -> None:
    wrapped = add_lgconv(small_network().to(torch.bfloat16))
    assert {parameter.dtype for parameter in wrapped.parameters()} == {torch.bfloat16}
    assert wrapped(torch.randn(2, 3, 8, 8, dtype=torch.bfloat16)).dtype == torch.bfloat16
    elsewhere = add_lgconv(small_network().to("meta"))
    assert {parameter.device.type for parameter in elsewhere.parameters()} == {"meta"}


def test_half_precision_training_is_finite_and_softmax_is_not_in_half() -> None:
    torch.manual_seed(0)
    model = loud(add_lgconv(small_network()))
    x = torch.randn(2, 3, 16, 16) * 20
    exact = model(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = model(x)
    rough.float().square().mean().backward()
    assert rough.isfinite().all()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())
    assert (rough - exact).abs().max() < 0.05 * exact.abs().max()


def test_channels_last_gives_the_same() -> None:
    torch.manual_seed(0)
    model = loud(add_lgconv(small_network(stride=2))).eval()
    x = torch.randn(2, 3, 9, 7)
    expected = model(x)
    turned = model.to(memory_format=torch.channels_last)(x.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(turned, expected)


def test_compiles() -> None:
    torch.manual_seed(0)
    model = loud(add_lgconv(small_network(stride=2))).eval()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    x = torch.randn(2, 3, 9, 7)
    torch.testing.assert_close(compiled(x), model(x))
