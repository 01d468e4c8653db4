"""Everything a training can be told. Light on purpose: the command line imports it to print its help.

A value of None (or "auto") is chosen by :func:`positively.finetune.auto.resolve`, which prints what it chose; the run
folder's config.yaml holds what was chosen, so that it can be passed back as ``--config``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from positively.options import Count, Decay, Index, NonNegative, Positive, Range, Runtime


@dataclass
class ModelOptions:
    """The network."""

    backbone: str = "auto"
    """A backbone by name (lite0, resnet50, clip-vit-b32, siglip2-base), an .onnx file, or any timm model where torch is
    installed."""
    weights: str = "pretrained"
    """'pretrained', a .safetensors file, or 'none' for random weights."""
    image_size: Annotated[int, Range(minimum=8)] | None = None
    """Pixels a side that the network sees."""
    embeddings: list[str] | None = None
    """Files with embeddings of the images, in place of a backbone: .npy, .npz, .parquet or .safetensors. Rows are
    matched by image name or content hash; several files are joined."""
    depth: Literal["auto", "probe", "tail", "finetune"] = "auto"
    """How much learns: 'probe' keeps the backbone frozen and its features on disk, 'tail' keeps the maps of the early
    stages and trains the last one, 'finetune' trains the network. 'auto': 'probe' where the method can; on a GPU
    'finetune', where method 'auto' uses what was learned only if it is better than the probe."""
    head: str = "auto"
    """What leads from the feature map to the classes: 'linear' (pooling and one linear layer), 'semantic-graph' (the
    head behind the published numbers: a feature for each class by attention, and a graph of the classes; 14 million
    weights), 'kernel' (the closed form's), 'ml-gcn', 'cadm', 'cop', 'dual-coop' (those of their methods), or one of
    your own; 'auto' is what the method needs, else linear."""
    head_options: dict[str, Any] = field(default_factory=dict)
    """Options of the head, such as --head-options.pooling max; `positively check --head NAME` lists them."""
    lgconv: bool = False
    """Add a global branch to every 3×3 convolution (the paper's local-global convolution); at 'tail', to those of the
    stages that learn."""
    learn_stages: Index | None = None
    """How many of the last stages learn; default: all with 'finetune', one with 'tail'."""
    freeze_batchnorm: bool | None = None
    """Keep batch-norm statistics as they were pretrained; default: yes, unless the weights are random."""


@dataclass
class MethodOptions:
    """The method."""

    method: str = "auto"
    """'auto' (closed-form where the backbone is frozen, distill where a pretrained one learns, else pu-mlc);
    closed-form (least-squares density ratios, solved at once), distill (its soft targets teach the network); from
    positives alone pu-mlc (the paper's), vpu, upu, nnpu, assume-negative (unknown labels called negative), an-ls,
    asl-an, focal-an, hill, splc, gr, two-way, em, em-apl, epr, role, ll-r, ll-ct, ll-cp, prototype; with known
    negatives bce (known labels only), partial-bce, asl, focal, cl, imcl, ml-gcn, ssgrl, cadm, cop, sst, sarb,
    dual-coop; or one of your own. What each is good for: docs/research/methods.md."""
    method_options: dict[str, Any] = field(default_factory=dict)
    """Options of the method, such as --method-options.gamma 0.55; `positively check --method NAME` lists them.
    Default: as published, but for 'probe', where pu-mlc takes gamma 0.2 and (unless alpha is given) no temperature."""
    plugin: str | None = None
    """Python file that registers methods, losses, heads, embedders or table formats of your own."""
    start: Literal["auto", "default", "prior", "solved"] = "auto"
    """Start of the head: random weights ('default'), zero weights with biases at the class frequencies ('prior'), or
    what the closed form finds on the network as it begins ('solved'; plain linear heads)."""


@dataclass
class SettingOptions:
    """Experiments on tables whose labels are complete: what is hidden before training."""

    known_ratio: Annotated[float, Range(above=0, maximum=1)] = 1.0
    """Hide labels at random but for this share, positives and negatives alike."""
    known_ratio_spread: NonNegative = 0.0
    """Let the share differ from class to class: the standard deviation of its log-odds. 0.8: from about a half to
    twice as many."""
    positives_only: bool = False
    """Forget all negative labels."""
    single_positive: bool = False
    """Keep one positive label an image and nothing else."""
    flip_positives: Decay = 0.0
    """Share of the positive labels called negative before anything is hidden: label noise."""
    mask_seed: Index | None = None
    """Seed of what is hidden; default: that of the run. 0 is the mask of the published benchmarks."""


@dataclass
class LearningOptions:
    """Learning."""

    epochs: Count | None = None
    """Epochs the schedule is made for; default: enough for the size of the table."""
    stop_epoch: Count | None = None
    """Stop after this epoch, before the schedule ends (the paper's recipe does)."""
    batch_size: Annotated[int, Range(minimum=2)] | None = None
    """Images in a step, over all devices."""
    lr: Positive | None = None
    """Highest learning rate."""
    weight_decay: NonNegative = 1e-4
    """Weight decay (biases and norms have none)."""
    optimizer: Literal["adamw", "adam"] = "adamw"
    """AdamW, or Adam with L2 as in the reference."""
    schedule: Literal["onecycle", "cosine", "constant"] = "onecycle"
    """Course of the learning rate."""
    warmup: Decay = 0.2
    """Share of the schedule in which the learning rate rises."""
    ema: Decay | None = None
    """Decay of the averaged weights, which are then the ones saved; 0 turns averaging off."""
    clip_norm: Positive | None = None
    """Largest norm of the gradient."""
    augment: Literal["auto", "none", "flip", "crop"] = "auto"
    """Random changes of training images: 'flip', 'crop' (the paper's: five crop sizes, and flip), or 'none'."""
    holdout: Decay = 0.1
    """Share of the training images held out to find thresholds and watch progress (a 'val' split is used first)."""
    restore_best: bool | None = None
    """Use the weights of the epoch that was best on the images held out, by holdout_pu, which needs no negatives, in
    place of the last one's; default: at depth 'probe', and with patience."""
    patience: Index | None = None
    """Stop once the images held out were judged no better, by holdout_pu, for so many epochs in a row, and use the best
    of them; 0: never. Default: 0, but for what the closed form teaches (method 'distill', which 'auto' is where a
    pretrained network learns): 1 at depth 'tail', 3 at 'finetune'."""
    solve_head: bool | None = None
    """Once the network has learned, solve its head in closed form on its features, and use that if tags held out rank
    higher by it than by the closed form on the network as it began (if it began at random: than by its own head), which
    is used otherwise; default: with method 'auto'."""
    refit: bool | None = None
    """Once epoch and thresholds are found, train again on all images, those held out included, to the same epoch;
    default: at depth 'probe', unless the table names its own 'val' images. A method that solves takes no steps."""
    seed: Index = 0
    """Seed of everything random."""


@dataclass
class RuntimeOptions:
    """The run."""

    out: str | None = None
    """Run folder; default: runs/<table>-<method>, numbered."""
    resume: Literal["never", "auto"] = "never"
    """'auto' goes on from the run folder's last checkpoint if there is one."""
    devices: Count | Literal["auto"] = "auto"
    """Number of devices (processes); 'auto': all GPUs, or one CPU process."""
    nodes: Count = 1
    """Number of machines."""


@dataclass
class MachineOptions:
    """The machine."""

    accelerator: str = "auto"
    """cpu, cuda, mps or auto."""
    dtype: Literal["auto", "float32", "float16", "bfloat16", "float64"] = "auto"
    """Number format; float16 and bfloat16 are mixed precision. 'auto': bfloat16 on GPUs that support it, float16
    on other GPUs, float32 on a CPU."""
    workers: Index | None = None
    """Processes that read images; default: one a core up to eight on a GPU, none (threads read them) on a CPU."""
    runtime: Runtime = "auto"
    """What runs a frozen network on a CPU: torch, onnx (ONNX Runtime), or auto: the latter for a thousand images and
    more, where it is installed."""
    cache: str | None = None
    """Folder in which embeddings are kept; default: the cache folder of the user."""
    checkpoint_minutes: NonNegative = 10.0
    """Time between checkpoints inside an epoch; one is written after each epoch in any case."""


@dataclass
class TrainConfig(ModelOptions, MethodOptions, SettingOptions, LearningOptions, RuntimeOptions, MachineOptions):
    """Everything together, flat."""


GROUPS = (MethodOptions, ModelOptions, LearningOptions, RuntimeOptions, MachineOptions, SettingOptions)
"""The parts of :class:`TrainConfig`, in the order the help shows them."""

RENAMED = {
    "at_least": "min_probability",
    "features": "cache",
    "fold_cuts": "fold_thresholds",
    "options": "method_options",
    "precision": "dtype",
    "skip_missing": "skip_missing_images",
}
"""Names of options in earlier versions → names of today; accepted for one release."""

_OLD_DTYPES = {"32-true": "float32", "16-mixed": "float16", "bf16-mixed": "bfloat16", "64-true": "float64"}


def current_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of an earlier version under the names and values of today.

    >>> current_options({"precision": "32-true", "epochs": 3})
    {'dtype': 'float32', 'epochs': 3}
    """
    named = {RENAMED.get(name, name): value for name, value in options.items()}
    if isinstance(named.get("dtype"), str):
        named["dtype"] = _OLD_DTYPES.get(named["dtype"], named["dtype"])
    return named
