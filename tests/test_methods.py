"""The contract every registered method keeps: it learns, it resumes bit for bit, and two processes are one."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock
from lightning_fabric import Fabric
from safetensors.torch import load_file

import positively as po
import shapes
from conftest import TINY, options
from positively.errors import ConfigError
from positively.finetune.auto import resolve
from positively.finetune.methods import METHODS, Method, StepContext, create_method, register_method, resolve_options
from positively.finetune.networks import Networks
from positively.finetune.training import Training
from positively.labels import POSITIVE, LabelTable
from positively.losses.statistics import batch_mean
from positively.metrics import mean_average_precision
from positively.metrics.logits import sigmoid
from positively.models import HEADS, Head, register_head
from positively.options import describe_options
from positively.probe import METHOD
from wording import naming

OURS = tuple(METHODS)
STEPPED = tuple(name for name in OURS if name != METHOD)
"""The methods that take steps: a probe is fitted at once, without a training."""
STATEFUL = ("ll-cp", "prototype")
DEPTHS = [(name, depth) for name in STEPPED for depth in METHODS[name].depths]


class Killed(BaseException):
    """As if the process had died."""


class Memory:
    """Checkpoints in memory; ``dies_after`` so many of them the process is gone."""

    path = Path("memory")

    def __init__(self, dies_after=None):
        self.saved, self.saves, self.dies_after = None, 0, dies_after

    def load_checkpoint(self):
        return None if self.saved is None else torch.load(io.BytesIO(self.saved), weights_only=True)

    def save_checkpoint(self, state):
        held = io.BytesIO()
        torch.save(state, held)
        self.saved, self.saves = held.getvalue(), self.saves + 1
        if self.saves == self.dies_after:
            raise Killed

    def write_metrics(self, history):
        pass


def make(tables, fabric, place, method, depth, store=None, **changes):
    config = resolve(shapes.settings(method, depth, place, **changes), tables[0], torch.device("cpu"))
    return Training(tables[0], config, fabric, Networks(fabric), store=store, verbose=False)


def quality(training, test):
    return mean_average_precision(sigmoid(training.score(test)), test.states())


def measured(training):
    return [{k: v for k, v in row.items() if k != "images_per_second"} for row in training.history]


def weights(training):
    parts = {"network": training.classifier.state_dict(), "method": training.trainer.method.state_dict()}
    return {f"{part}.{name}": tensor for part, state in parts.items() for name, tensor in state.items()}


# Learning


@pytest.mark.parametrize(("method", "depth"), DEPTHS)
def test_every_method_learns_at_every_depth_it_declares(method, depth, tables, fabric, place):
    training = make(tables, fabric, place, method, depth)
    training.run()
    assert quality(training, tables[1]) > shapes.LEARNED


@pytest.mark.parametrize("depth", ["probe", "tail", "finetune"])
def test_an_untrained_network_is_far_below_what_is_learned(depth, tables, fabric, place):
    """On average: a random head on good features may be lucky."""
    found = [quality(make(tables, fabric, place, "bce", depth, seed=seed), tables[1]) for seed in range(6)]
    assert np.mean(found) < shapes.UNTRAINED


@pytest.mark.parametrize(("method", "depth"), DEPTHS)
def test_a_run_killed_in_the_middle_of_an_epoch_resumes_bit_for_bit(method, depth, tables, fabric, place):
    changes = {"epochs": 3, "checkpoint_minutes": 0.0}  # five steps an epoch, a checkpoint after each
    unbroken = make(tables, fabric, place, method, depth, **changes)
    unbroken.run()
    store = Memory(dies_after=9)  # five steps, the end of the epoch, three more
    with pytest.raises(Killed):
        make(tables, fabric, place, method, depth, store, **changes).run()
    resumed = make(tables, fabric, place, method, depth, store, resume="auto", **changes)
    assert resumed.resumed and (resumed.trainer.epoch, resumed.trainer.step) == (1, 3)
    resumed.run()
    expected = weights(unbroken)
    assert expected.keys() == weights(resumed).keys()
    assert all(torch.equal(tensor, weights(resumed)[name]) for name, tensor in expected.items())
    assert measured(unbroken) == measured(resumed)


DYING = """
import os, signal, sys
from positively.finetune.loop import Trainer
from positively.cli import main
plain = Trainer._learn
def learn(self, batch):
    plain(self, batch)
    if self.epoch == 1 and self.step == 2:
        os.kill(os.getpid(), signal.SIGKILL)
Trainer._learn = learn
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("method", STATEFUL)
def test_a_stateful_method_killed_by_the_system_resumes_bit_for_bit(method, scenes, positively, environment, tmp_path):
    settings = TINY | {"epochs": 3, "method": method, "checkpoint_minutes": 0.0}
    words = ["train", scenes / "train.csv", *options(settings)]
    po.fit(po.read(scenes / "train.csv", quiet=True), out=str(tmp_path / "unbroken"), **settings)
    command = [sys.executable, "-c", DYING, *map(str, words), "--out", str(tmp_path / "broken")]
    assert subprocess.run(command, env=environment, capture_output=True).returncode == -signal.SIGKILL
    resumed = positively(*words, "--out", tmp_path / "broken", "--resume", "auto")
    assert "epoch 2, step 2" in resumed.stderr  # the last checkpoint was one step before
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("unbroken", "broken"))
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())
    states = [torch.load(tmp_path / name / "checkpoint" / "last", weights_only=True) for name in ("unbroken", "broken")]
    assert states[0]["method"].keys() and all(
        torch.equal(tensor, states[1]["method"][name]) for name, tensor in states[0]["method"].items()
    )


# Methods of one's own, which use all a method may


class Everything(Method):
    """Uses all a method may: own parameters, rows, streams, scores of the training set after an epoch."""

    def setup(self, training):
        self.offset = torch.nn.Parameter(torch.zeros(len(training.table.classes)))
        self.register_buffer("scored", torch.zeros(len(training.table), len(training.table.classes)))
        self.draws = []

    def training_step(self, network, inputs, states, step):
        self.draws.append((step.generator("one").random(), step.generator("two").random()))
        assert (step.rows >= 0).all() and len(step.rows) == len(inputs)
        logits = network.forward_head(network.forward_features(inputs)) + self.offset
        losses = torch.nn.functional.softplus(-logits * (states * 2 - 1).clamp(-1, 1))
        return {"loss": batch_mean(losses, "global").sum()}

    def on_epoch_end(self, training):
        self.scored.copy_(torch.from_numpy(training.score()))


@pytest.fixture
def registered():
    register_method("everything")(Everything)
    yield
    del METHODS._entries["everything"]


# Two processes


@pytest.fixture(scope="session")
def two_processes(place, tables, environment, tmp_path_factory):
    """One pair of processes walks through all methods: unbroken, and killed and resumed; once for all of pytest's."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    out = shared / "two"
    with FileLock(shared / "two.lock"):
        if not out.exists():
            _walk(place, environment, out)
    return out


def _walk(place, environment, out):
    made = out.with_name("two.making")
    made.mkdir(exist_ok=True)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = Path(__file__).with_name("walk_through_methods.py")
    path = os.pathsep.join([str(script.parent), environment.get("PYTHONPATH", "")])
    done = subprocess.run(
        [*launcher, str(script), str(place), str(made)],
        env=environment | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[:6000]
    (made / "place").write_text(str(place))
    made.rename(out)


@pytest.mark.parametrize("method", [*STEPPED, "everything"])
def test_two_processes_learn_what_one_does_and_resume_bit_for_bit(method, two_processes, registered, tables, place):
    from walk_through_methods import CHANGES

    engine, depth = Fabric(accelerator="cpu", devices=1, precision="64-true"), METHODS[method].depths[-2:][0]
    alone = make(tables, engine, place, method, depth, **CHANGES)
    alone.run()
    found = [load_file(two_processes / f"{method}-{kind}-0.safetensors") for kind in ("unbroken", "resumed")]
    other = load_file(two_processes / f"{method}-unbroken-1.safetensors")
    # Coordinates of the probe that teaches are single precision, whatever the network's is.
    tolerance = {"atol": 1e-5, "rtol": 1e-5} if method == "distill" else {"atol": 1e-8, "rtol": 0}
    for name, tensor in weights(alone).items():
        torch.testing.assert_close(found[0][name], tensor, **tolerance)
        assert torch.equal(found[0][name], found[1][name]), f"{name} differs after resuming"
        assert torch.equal(found[0][name], other[name]), f"{name} differs between the processes"


def test_what_two_processes_began_one_can_finish(two_processes):
    """Another number of devices on resume works: a step is the same however many share it."""
    from walk_through_methods import CHANGES

    class Left(Memory):
        def load_checkpoint(self):
            return torch.load(two_processes / "prototype.checkpoint", weights_only=True)

    engine, place = (
        Fabric(accelerator="cpu", devices=1, precision="64-true"),
        Path((two_processes / "place").read_text()),
    )
    tables = (shapes.read_shapes(place, "train"),)  # a checkpoint knows the very photos
    resumed = make(tables, engine, place, "prototype", "tail", Left(), resume="auto", **CHANGES)
    assert resumed.resumed
    resumed.run()
    for name, tensor in load_file(two_processes / "prototype-unbroken-0.safetensors").items():
        torch.testing.assert_close(weights(resumed)[name], tensor, atol=1e-8, rtol=0)


# What the stateful methods keep


def test_large_loss_remembers_which_labels_of_which_images_it_corrected(tables, fabric, place):
    training = make(tables, fabric, place, "ll-cp", "probe", epochs=8, method_options={"delta": 0.01}, refit=False)
    training.run()
    corrected = training.trainer.method.corrected
    states = torch.from_numpy(training.train.states())
    assert corrected.shape == states.shape
    assert 0 < corrected.float().mean() <= 7 * 0.0125 + 0.01  # seven epochs, each 1 % · 10 / 8; rounded up
    assert (states[corrected] == 0).all(), "only unknown labels are corrected"
    truth = dict(zip(tables[0].images, tables[0].states(), strict=True))
    hidden = np.stack([truth[image] for image in training.train.images])[corrected.numpy()] == 1
    assert hidden.mean() > 0.7  # most of what costs much is a positive that was hidden


def test_prototypes_are_the_moving_means_of_the_known_positives():
    method = create_method("prototype", momentum=0.5, warmup=0)

    class Around:
        table = type("Table", (), {"classes": ("a", "b"), "__len__": lambda self: 4})()
        trainable = type("Net", (), {"head": type("Head", (), {"last_layer": torch.nn.Linear(2, 2)})()})()

    method.setup(Around())
    same = {"forward_features": lambda self, x: x, "forward_head": lambda self, x: 1.0 * x}
    network = type("Network", (), same)()
    inputs = torch.tensor([[3.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    states = torch.tensor([[1, 0], [1, 0], [0, 0]])
    method.training_step(network, inputs, states, StepContext(0, 0, 0, torch.arange(3)))
    torch.testing.assert_close(method.prototypes, torch.tensor([[0.5, 0.5], [0.0, 0.0]]))
    assert method.seen.tolist() == [True, False]
    torch.testing.assert_close(method.closeness[0], torch.tensor(2**-0.5))
    # The third image lies nearer to the prototype of a than a's own: its unknown a is left out, its unknown b is not.
    third = torch.tensor([[1.0, 1.0]]).requires_grad_()
    parts = method.training_step(network, third, torch.tensor([[0, 0]]), StepContext(0, 1, 0, torch.tensor([2])))
    parts["loss"].backward()
    assert third.grad[0, 0] == 0 and third.grad[0, 1] > 0


# The contract itself


def test_a_method_sees_rows_streams_features_and_its_parameters_learn(registered, tables, fabric, place):
    training = make(tables, fabric, place, "everything", "tail", epochs=2, ema=0.0)
    training.run()
    method = training.trainer.method
    assert method.offset.abs().min() > 0, "its own parameters reached the optimizer"
    np.testing.assert_allclose(method.scored, training.trainer.score(), atol=1e-6)
    assert len(set(method.draws)) == 10 and all(one != two for one, two in method.draws)


@pytest.mark.parametrize("method", OURS)
def test_every_option_has_a_help_text_and_a_default_that_is_allowed(method):
    create_method(method)
    for name, takes, _, text in describe_options(METHODS[method].Options):
        assert text and takes, name


def test_options_out_of_range_are_sentences_and_defaults_may_depend_on_the_depth():
    with pytest.raises(ConfigError, match=naming("'pu-mlc'", "gamma", "-0.5")):
        create_method("pu-mlc", gamma=-0.5)
    with pytest.raises(ConfigError, match=naming("'pumlc'", "'pu-mlc'?")):
        create_method("pumlc")
    with pytest.raises(ConfigError, match="'hill'"):  # a loss that is a method by its name alone
        create_method("hil")
    with pytest.raises(ConfigError, match=naming("'pu-mlc'", "'gama'", "'gamma'?")):
        create_method("pu-mlc", gama=1.0)
    assert resolve_options("pu-mlc", "probe", {}) == {"gamma": 0.2, "tau": 1.0}
    assert resolve_options("pu-mlc", "probe", {"alpha": 2.0}) == {"gamma": 0.2, "alpha": 2.0}
    assert resolve_options("pu-mlc", "finetune", {}) == {}


def test_a_benchmark_tells_a_method_what_it_knows():
    assert METHODS["upu"].benchmark_options(0.3, {}) == {"label_frequency": 0.3}
    assert METHODS["pu-mlc"].benchmark_options(0.3, {"gamma": 0.4, "alpha": 2.0, "mixup": 1}) == {
        "gamma": 0.4,
        "alpha": 2.0,
    }
    assert METHODS["bce"].benchmark_options(0.3, {"gamma": 0.4}) == {}


def test_the_prior_of_a_risk_is_the_known_frequency_over_the_label_frequency(tables, fabric, place):
    training = make(tables, fabric, place, "upu", "probe", method_options={"label_frequency": 0.5})
    expected = training.train.counts(POSITIVE) / len(training.train) / 0.5
    np.testing.assert_allclose(training.trainer.method.loss.prior, expected, rtol=1e-6)


# Many trainings from one place


class Bare(Head):
    """A head whose weights nobody resets: a parameter of its own, and no layer."""

    def __init__(self, channels, classes):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(channels, classes) / channels**0.5)

    def forward(self, features):
        return (features.amax((2, 3)) if features.ndim == 4 else features) @ self.weight


def test_a_training_never_starts_from_the_head_of_the_one_before(tables, fabric, place):
    """A bench shares frozen networks between cells; the head of the last cell came along."""
    register_head("bare")(Bare)
    try:
        config = resolve(
            shapes.settings("bce", "probe", place, head="bare", head_options={}, epochs=2),
            tables[0],
            torch.device("cpu"),
        )
        networks, starts, ends = Networks(fabric), [], []
        for source in (networks, networks, Networks(fabric)):
            training = Training(tables[0], config, fabric, source, verbose=False)
            starts.append(training.classifier.head.weight.detach().clone())
            training.run()
            ends.append(training.classifier.head.weight.detach().clone())
        assert torch.equal(starts[0], starts[1]) and torch.equal(starts[0], starts[2])
        assert torch.equal(ends[0], ends[1]) and not torch.equal(starts[0], ends[0])
    finally:
        HEADS._entries.pop("bare")


def test_images_of_the_same_name_in_another_folder_have_their_own_features(tables, fabric, place, tmp_path):
    """Features were remembered by the names of the files: a test set with the names of train scored train's."""
    train, test = tables
    names = [f"{index}.png" for index in range(100)]
    for folder, table in (("a", train), ("b", test)):
        (tmp_path / folder).mkdir()
        for name, path in zip(names, table.paths[:100], strict=True):
            (tmp_path / folder / name).write_bytes(path.read_bytes())
    one, other = (
        LabelTable(names, table.classes, table.offsets[:100], table.blank, tmp_path / folder)
        for folder, table in (("a", train), ("b", test))
    )
    config = resolve(shapes.settings("bce", "probe", place, holdout=0.0), one, torch.device("cpu"))
    training = Training(one, config, fabric, Networks(fabric), verbose=False)
    training.run()
    assert quality(training, other) > shapes.LEARNED


def test_a_method_that_can_use_negatives_but_does_not_need_them_takes_both_kinds_of_table(tables, fabric, place):
    for name in STATEFUL:
        assert create_method(name).uses_negatives and not create_method(name).needs_negatives
        assert not make(tables, fabric, place, name, "probe", positives_only=True).train.has_negatives
        assert make(tables, fabric, place, name, "probe", positives_only=False).train.has_negatives
