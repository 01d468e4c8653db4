"""A library leaves its caller's process as it found it, and speaks the caller's language."""

import ast
import contextlib
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import positively as po
from conftest import TINY
from positively import losses
from positively.config import TrainConfig
from positively.errors import ConfigError, LabelError, PositivelyError, in_shell
from positively.finetune.auto import resolve
from positively.losses import LOSSES
from wording import assert_names, naming

pytestmark = pytest.mark.usefixtures("bare_runs")


@pytest.fixture(scope="module")
def tags(scenes):
    return po.read(scenes / "train.csv", quiet=True)


def test_a_fit_leaves_no_lasting_change(tags, scenes, tmp_path):
    torch.manual_seed(123)
    np.random.seed(7)
    state, environment = torch.get_rng_state(), dict(os.environ)
    before = (np.random.get_state()[1].tolist(), torch.get_default_dtype(), torch.get_num_threads(), logging.root.level)
    handlers, level = list(logging.getLogger("positively").handlers), logging.getLogger("positively").level
    run = po.fit(tags, out=str(tmp_path / "run"), **TINY)
    run.predict([scenes / "test" / "00000.png"])
    assert torch.equal(torch.get_rng_state(), state)
    assert dict(os.environ) == environment
    assert before == (
        np.random.get_state()[1].tolist(),
        torch.get_default_dtype(),
        torch.get_num_threads(),
        logging.root.level,
    )
    logger = logging.getLogger("positively")
    assert list(logger.handlers) == handlers and logger.level == level


SPEAKING = """
import sys, logging
import positively as po
if sys.argv[2] == "own":
    logging.basicConfig(level=logging.INFO, format="MINE %(name)s %(message)s", stream=sys.stderr)
table = po.read(sys.argv[1], quiet=sys.argv[2] == "quiet")
print("read")
"""


def test_messages_are_logged_shown_by_default_and_quiet_on_request(scenes):
    def run(kind):
        words = [sys.executable, "-c", SPEAKING, str(scenes / "train.csv"), kind]
        return subprocess.run(words, capture_output=True, text=True, check=True)

    plain, quiet, own = run("plain"), run("quiet"), run("own")
    assert "32 images" in plain.stderr and plain.stdout == "read\n"
    assert quiet.stderr == ""
    assert "MINE positively train.csv" in own.stderr and own.stderr.count("32 images") == 1


def test_fit_is_quiet_on_request(tags, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(logging.root, "handlers", [])
    po.fit(tags, out=str(tmp_path / "a"), quiet=True, **TINY | {"epochs": 1})
    assert capsys.readouterr() == ("", "")
    po.fit(tags, out=str(tmp_path / "b"), **TINY | {"epochs": 1})
    assert capsys.readouterr().err


TERMINAL = """
import sys
import positively as po
settings = dict(backbone="test_resnet", weights="none", image_size=32, depth="finetune", augment="none", epochs=3)
po.fit(po.read(sys.argv[1], quiet=True), out=sys.argv[2], quiet=sys.argv[3] == "quiet", **settings, batch_size=8)
"""


@pytest.mark.parametrize("kind", ["quiet", "loud"])
def test_quiet_means_no_progress_bar_in_a_terminal_either(kind, scenes, environment, tmp_path):
    import pty

    main, child = pty.openpty()
    words = [sys.executable, "-c", TERMINAL, str(scenes / "train.csv"), str(tmp_path / "run"), kind]
    process = subprocess.Popen(words, env=environment | {"TERM": "xterm"}, stderr=child, stdout=child)
    os.close(child)
    shown = b""
    with contextlib.suppress(OSError):  # the terminal is gone when the process is
        while part := os.read(main, 65536):
            shown += part
    assert process.wait() == 0
    assert (shown == b"") == (kind == "quiet"), shown[-500:]


def test_the_command_line_waits_passively_unless_told_otherwise(monkeypatch):
    program = (
        "import os, sys\nfrom positively.cli import main\ntry: main(['check', '--help'])\nexcept SystemExit: pass\n"
        "assert 'torch' not in sys.modules\nprint(os.environ.get('OMP_WAIT_POLICY'), file=sys.stderr)"
    )
    plain = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    for given, expected in ((plain, "PASSIVE"), (plain | {"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")):
        done = subprocess.run([sys.executable, "-c", program], env=given, capture_output=True, text=True, check=True)
        assert done.stderr.strip() == expected


def test_a_message_names_an_argument_for_python_and_a_flag_for_the_shell(tags, scenes, tmp_path, positively):
    with pytest.raises(PositivelyError) as raised:
        po.fit(tags, out=str(tmp_path / "run"), **TINY | {"method": "bce"})
    assert_names(str(raised.value), "blank='negative'", "method='auto'")
    assert_names(in_shell(raised.value.message), "--blank negative", "--method auto")
    done = positively("train", scenes / "train.csv", "--method", "bce", check=False)
    assert_names(done.stderr, "--blank negative", "--method auto")


def test_no_error_of_the_package_has_a_flag_written_out():
    """Options in messages are marked, so that each reader sees their own spelling."""
    found = []
    for path in Path(po.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for raised in (node for node in ast.walk(tree) if isinstance(node, ast.Raise)):
            texts = [node.value for node in ast.walk(raised) if isinstance(node, ast.Constant)]
            found += [f"{path.name}: {text}" for text in texts if re.search(r"(^|[ (])--(?!help)[a-z]", str(text))]
    assert not found


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"epochs": "ten"}, ["epochs", "None", "'ten'"]),
        ({"lr": True}, ["lr", "None", "True"]),
        ({"depth": "deep"}, ["depth", "'auto'", "'finetune'", "'deep'"]),
        ({"batchsize": 3}, ["'batchsize'", "'batch_size'?"]),
        ({"head": "cubic"}, ["'cubic'", "linear"]),
        (
            {"head": "linear", "head_options": {"poling": "max"}},
            ["'linear'", "'poling'", "pooling"],
        ),
        ({"head_options": {"poling": "max"}}, ["'linear'", "'poling'", "pooling"]),
        ({"lgconv": True, "depth": "probe"}, ["LgConv", "'probe'"]),
        ({"backbone": "resnet5o"}, ["'resnet5o'", "resnet50"]),
        ({"weights": "none.safetensors"}, ["none.safetensors"]),
    ],
)
def test_option_errors_are_right(options, facts, tags, tmp_path):
    with pytest.raises(PositivelyError, match=naming(*facts)):
        po.fit(tags, out=str(tmp_path / "run"), **{**TINY, **options})
    assert not (tmp_path / "run").exists()


def test_a_module_of_ones_own_at_depth_auto_on_a_cpu_is_trained_not_frozen(tags, tmp_path):
    own = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 5, stride=4), torch.nn.ReLU())
    before = own[0].weight.detach().clone()
    run = po.fit(tags, backbone=own, out=str(tmp_path / "run"), epochs=1, image_size=32)
    assert run.model_config["depth"] == "finetune" and not torch.equal(own[0].weight, before)
    assert resolve(TrainConfig(), tags, torch.device("cpu")).depth == "probe"


# Losses


@pytest.mark.parametrize("name", sorted(LOSSES))
@pytest.mark.parametrize("wrong", [2, -3, float("nan"), 0.5])
def test_a_loss_refuses_label_values_that_are_none(name, wrong):
    states = torch.tensor([[1.0, 0.0, -1.0], [0.0, wrong, 1.0]])
    with pytest.raises(LabelError, match=naming("+1", "0", "-1")):
        LOSSES[name]()(torch.zeros(2, 3), states)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_a_loss_takes_an_empty_batch(name):
    logits = torch.zeros(0, 3, requires_grad=True)
    for reduction in ("sum", "mean"):
        value = LOSSES[name](class_reduction=reduction)(logits, torch.zeros(0, 3))
        assert torch.isfinite(value)
        value.backward()


def test_a_loss_refuses_a_negative_gamma():
    logits, states = torch.zeros(2, 3), torch.zeros(2, 3)
    with pytest.raises(ConfigError, match="gamma"):
        losses.pu_mlc(logits, states, gamma=-0.1)
    with pytest.raises(ConfigError, match=naming("gamma", "-0.1")):
        losses.PUMLC(gamma=-0.1)
    with pytest.raises(ConfigError, match="tau"):
        losses.pu_mlc(logits, states, tau=0.0)


def test_a_loss_says_what_it_takes():
    logits = torch.zeros(2, 3)
    with pytest.raises(LabelError, match=r"True|bool"):
        losses.pu_mlc(logits, torch.zeros(2, 3, dtype=torch.bool))
    with pytest.raises(LabelError, match="ndarray"):
        losses.bce(logits, np.zeros((2, 3)))
    assert losses.bce(logits, torch.ones(2, 3, dtype=torch.int8)) > 0


def test_a_loss_that_is_no_single_number_is_told(tags, tmp_path):
    from positively.finetune.methods import METHODS, Method, register_method

    @register_method("wrong-shape")
    class WrongShape(Method):
        def training_step(self, network, inputs, states, step):
            return {"loss": network(inputs)}

    try:
        with pytest.raises(ConfigError, match=naming("WrongShape", "'loss'", "(8, 10)")):
            po.fit(tags, out=str(tmp_path / "run"), **TINY | {"method": "wrong-shape"})
    finally:
        METHODS._entries.pop("wrong-shape")


def test_a_run_of_a_module_of_ones_own_says_how_it_is_opened(tags, scenes, tmp_path):
    own = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 5, stride=4), torch.nn.ReLU())
    run = po.fit(tags, backbone=own, out=str(tmp_path / "run"), epochs=1, image_size=32)
    photo = scenes / "test" / "00000.png"
    with pytest.raises(PositivelyError, match=naming("Sequential", "po.Run(", "backbone=module")):
        po.Run(run.path).predict(photo)
    assert po.Run(run.path, backbone=own).predict(photo)[0].tags == run.predict([photo])[0].tags
