"""What the methods for missing labels do, on made examples: large losses, entropy with pseudo-labels, schedules."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from positively.finetune.methods import StepContext, create_method
from positively.labels import LabelTable
from positively.losses import assume_negative, bce, gr, splc

# Losses as negatives rise with the logits: the largest are (0, 1), (1, 0), (2, 2), known labels apart.
LOGITS = torch.tensor([[9.0, 5.0, -3.0], [4.0, -2.0, -1.0], [-1.0, 8.0, 3.0], [-4.0, -5.0, 0.5]], dtype=torch.float64)
STATES = torch.tensor([[1, 0, 0], [0, 0, 0], [0, -1, 0], [0, 0, 1]])


class Network:
    """Gives the logits it is asked about."""

    def __call__(self, inputs):
        return inputs


def around(epochs=10, states=STATES, **more):
    images = [f"{row}.jpg" for row in range(len(states))]
    table = LabelTable.from_states(images, [f"c{c}" for c in range(states.shape[1])], states.numpy())
    return SimpleNamespace(table=table, epochs=epochs, seed=0, **more)


def gradient(method, epoch, logits=LOGITS, states=STATES, rows=None):
    inputs = logits.clone().requires_grad_()
    step = StepContext(0, epoch, 0, torch.arange(len(logits)) if rows is None else rows)
    loss = method.training_step(Network(), inputs, states, step)["loss"]
    loss.backward()
    return loss.item(), inputs.grad


@pytest.mark.parametrize("name", ["ll-r", "ll-ct", "ll-cp"])
def test_in_the_first_epoch_unknown_labels_are_negative(name):
    method = create_method(name, delta=0.1)
    method.setup(around())
    value, _ = gradient(method, epoch=0)
    assert value == pytest.approx(assume_negative(LOGITS, STATES.clamp_min(0)).item())


def test_ll_r_leaves_the_largest_losses_of_unknown_labels_out_more_of_them_every_epoch():
    method = create_method("ll-r", delta=0.08)
    method.setup(around())
    for epoch, expected in ((1, [(0, 1)]), (2, [(0, 1), (1, 0)]), (3, [(0, 1), (1, 0), (2, 2)])):
        silent = (gradient(method, epoch)[1] == 0).nonzero().tolist()
        assert [tuple(place) for place in silent] == expected, "twelve labels, 0.96 of one more an epoch"


def test_of_equal_losses_no_more_are_left_out_than_are_due():
    method = create_method("ll-r", delta=0.08)
    method.setup(around())
    _, slope = gradient(method, 2, torch.zeros_like(LOGITS), torch.zeros_like(STATES))
    assert (slope == 0).sum() == 2


def test_ll_ct_turns_them_round_for_the_step_alone_and_never_a_known_negative():
    method = create_method("ll-ct", delta=0.08)
    method.setup(around())
    value, slope = gradient(method, 2)
    targets = torch.where(STATES == 1, 1, -1)
    targets[0, 1] = targets[1, 0] = 1
    assert value == pytest.approx(bce(LOGITS, targets).item())
    assert slope[2, 1] > 0, "the known negative costs more than any, and stays"
    assert gradient(method, 0)[0] == pytest.approx(assume_negative(LOGITS, STATES.clamp_min(0)).item())


def test_ll_cp_remembers_which_it_turned_round_when_the_image_comes_again():
    method = create_method("ll-cp", delta=0.08)
    method.setup(around())
    gradient(method, 1)
    assert method.corrected.nonzero().tolist() == [[0, 1]]
    calm = torch.full_like(LOGITS, -4.0)  # nothing stands out any more but what is remembered
    _, slope = gradient(method, 1, calm, rows=torch.tensor([3, 2, 1, 0]), states=STATES.flip(0))
    assert slope[3, 1] < 0 and method.corrected.sum() == 1, "of one epoch's share, one label, it has one already"
    gradient(method, 2)
    assert method.corrected.nonzero().tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("images, classes, epochs", [(100, 3, 200), (1000, 20, 50), (4000, 10, 30)])
def test_ll_cp_turns_no_larger_share_round_on_a_small_table(images, classes, epochs):
    """Rounded up in every step of every epoch, Δ became three quarters of the labels of a hundred photos."""
    method, generator = create_method("ll-cp"), torch.Generator().manual_seed(0)
    method.setup(around(epochs, torch.zeros(images, classes, dtype=torch.int64)))
    batch = min(images // 2, 200)
    for epoch in range(epochs):
        for rows in torch.randperm(images, generator=generator).split(batch):
            logits = torch.randn(len(rows), classes, generator=generator)
            gradient(method, epoch, logits, torch.zeros_like(logits, dtype=torch.int64), rows)
    share = method.corrected.float().mean().item()
    assert 0.015 < share < 0.021, "nine tenths of the training and more, 0.2 % each"


def test_a_share_for_ten_epochs_is_the_same_share_of_a_longer_training():
    short, long = create_method("ll-r", delta=0.08), create_method("ll-r", delta=0.08)
    short.setup(around(epochs=10))
    long.setup(around(epochs=30))
    assert [(gradient(short, 3)[1] == 0).sum(), (gradient(long, 9)[1] == 0).sum()] == [3, 3]


def test_em_apl_gives_the_lowest_scores_their_probability_as_label_from_the_middle_on():
    states = torch.zeros(20, 3, dtype=torch.int64)
    states[:2, 0] = 1
    scores = np.linspace(-4, 4, 60).reshape(20, 3)
    method = create_method("em-apl", alpha=0.1, beta=0.5, share=0.9, warmup=0.5)
    training = around(10, states, score=lambda: scores.astype(np.float32), epoch=3)
    method.setup(training)
    method.on_epoch_end(training)
    assert (method.pseudo < 0).all(), "the fourth of ten epochs: too early"
    for ended, given in ((4, [3, 3, 3]), (5, [6, 7, 7])):  # nine tenths of 18, 20, 20 unknown labels in five rounds
        training.epoch = ended
        method.on_epoch_end(training)
        assert (method.pseudo >= 0).sum(0).tolist() == given
    assert (method.pseudo[states == 1] < 0).all(), "a known positive has no pseudo-label"
    given = method.pseudo >= 0
    probabilities = torch.sigmoid(torch.from_numpy(scores)).float()
    torch.testing.assert_close(method.pseudo[given], probabilities[given])
    for c in range(3):
        unknown = states[:, c] != 1
        assert probabilities[given[:, c], c].max() < probabilities[unknown & ~given[:, c], c].min(), "lowest first"


@pytest.mark.parametrize("epochs", [10, 200])
def test_em_apl_has_labelled_its_share_before_the_last_epoch_however_many_there_are(epochs):
    """Rounded down in each of a hundred rounds, nothing was ever labelled of sixty photos."""
    scored = []
    scores = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    training = around(epochs, torch.zeros(60, 2, dtype=torch.int64), score=lambda: scored.append(1) or scores)
    method = create_method("em-apl", share=0.9, warmup=0.5)
    method.setup(training)
    for training.epoch in range(epochs):
        method.on_epoch_end(training)
    assert (method.pseudo >= 0).sum(0).tolist() == [54, 54]
    assert len(scored) == epochs / 2, "after the last epoch nobody would learn them"


def test_em_apl_learns_positives_pseudo_labels_and_entropy():
    method = create_method("em-apl", alpha=0.1, beta=0.5)
    method.setup(around())
    method.pseudo[1, 1] = 0.2
    p = torch.sigmoid(LOGITS)
    entropy = -(p * p.log() + (1 - p) * (1 - p).log())
    expected = torch.where(STATES == 1, -p.log(), -0.1 * entropy)
    expected[1, 1] = -0.5 * (0.2 * p[1, 1].log() + 0.8 * (1 - p[1, 1]).log())
    assert gradient(method, 9)[0] == pytest.approx(expected.mean().item() * 3, rel=1e-6)


def test_splc_corrects_nothing_before_the_network_has_learned():
    method = create_method("splc", warmup=1)
    method.setup(around())
    assert gradient(method, 0)[0] == pytest.approx(splc(LOGITS, STATES, threshold=1.0).item())
    assert gradient(method, 1)[0] == pytest.approx(splc(LOGITS, STATES).item())


def test_gr_moves_its_numbers_on_a_line_over_four_fifths_of_the_training():
    method = create_method("gr")
    method.setup(around(epochs=10))
    assert method.numbers(0) == {"slope": 0.0, "offset": -2.0, "center": 0.5, "width": 2.0}
    assert method.numbers(7) == method.numbers(9) == {"slope": 2.0, "offset": -2.0, "center": 0.8, "width": 0.5}
    middle = method.numbers(3)
    assert middle["slope"] == pytest.approx(2 * 3 / 7) and middle["width"] == pytest.approx(2 - 1.5 * 3 / 7)
    assert gradient(method, 0)[0] == pytest.approx(gr(LOGITS, STATES, **method.numbers(0)).item())
