"""All options of a training.

A value of None (or "auto") is chosen by :func:`positively.finetune.auto.resolve`. The config.yaml of a run holds what
was chosen; pass it as ``--config`` to train in the same way again. This module imports little, so that help is quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from positively.options import Count, Decay, File, Folder, Index, Name, NonNegative, Positive, Range, Runtime


@dataclass
class ModelOptions:
    """Model."""

    backbone: Name = "auto"
    """Network that turns images into embeddings: lite0, resnet50, clip-vit-b32, siglip2-base, an .onnx file, or any
    timm model (needs torch)."""
    weights: Name = "pretrained"
    """'pretrained', a .safetensors file, or 'none' for random weights."""
    image_size: Annotated[int, Range(minimum=8)] | None = None
    """Side of the images that the network sees, in pixels."""
    embeddings: list[File] | None = None
    """Files with embeddings of the images, used in place of a backbone. They are .npy, .npz, .parquet or .safetensors
    files, such as `positively embed` writes. Rows are matched by image name or content hash; several files are
    joined."""
    depth: Literal["auto", "probe", "tail", "finetune"] = "auto"
    """How much of the network learns. 'probe' keeps the backbone frozen and fits a classifier on its embeddings. 'tail'
    trains the last stage and stores the output of the stages before it. 'finetune' trains the whole network. 'auto' is
    'probe' on a CPU and 'finetune' on a GPU, where method 'auto' keeps the fine-tuned network only if it is better than
    the probe."""
    head: Name = "auto"
    """Layers from the backbone to the classes. 'linear': pooling and one linear layer. 'semantic-graph': one feature
    per class by attention, and a graph of the classes (14 million weights, the head of the published results).
    'kernel': the kernel classifier of the probe. 'ml-gcn', 'cadm', 'cop' and 'dual-coop' belong to the methods of these
    names. 'auto' is what the method needs, else 'linear'."""
    head_options: dict[str, Any] = field(default_factory=dict)
    """Option of the head, such as --head-options.pooling max. `positively check --head NAME` lists them."""
    lgconv: bool = False
    """Add a global branch to 3×3 convolutions (the paper's LgConv). At depth 'tail', only the stages that learn get
    it."""
    learn_stages: Index | None = None
    """Number of last stages that learn; default: all at depth 'finetune', one at 'tail'."""
    freeze_batchnorm: bool | None = None
    """Keep the pretrained batch-norm statistics; default: yes, unless the weights are random."""


@dataclass
class MethodOptions:
    """Method."""

    method: Name = "auto"
    """Training method: auto, pu-mlc, or one of over 30 others. 'auto' is closed-form where the backbone is frozen,
    distill where a pretrained network learns, and pu-mlc where a network starts from random weights. closed-form fits
    the probe; distill trains the network on the probe's probabilities. These learn from positives alone: pu-mlc (the
    paper's), vpu, upu, nnpu, assume-negative, an-ls, asl-an, focal-an, hill, splc, gr, two-way, em, em-apl, epr, role,
    ll-r, ll-ct, ll-cp, prototype. These use known negatives: bce, partial-bce, asl, focal, cl, imcl, ml-gcn, ssgrl,
    cadm, cop, sst, sarb, dual-coop. `positively check --method NAME` describes one."""
    method_options: dict[str, Any] = field(default_factory=dict)
    """Option of the method, such as --method-options.gamma 0.55. `positively check --method NAME` lists them. The
    defaults are the published values, except at depth 'probe', where pu-mlc takes gamma 0.2 and (unless alpha is given)
    no temperature."""
    plugin: File | None = None
    """Python file that registers your own methods, losses, heads, embedders or table formats."""
    start: Literal["auto", "default", "prior", "solved"] = "auto"
    """First weights of the head. 'default': random. 'prior': zero, with biases at the class frequencies. 'solved': the
    weights that the closed form finds on the network before training (linear heads)."""


@dataclass
class SettingOptions:
    """Experiments on complete labels.

    Part of the labels is hidden before training.
    """

    known_ratio: Annotated[float, Range(above=0, maximum=1)] = 1.0
    """Share of the labels to keep, drawn at random from positives and negatives alike."""
    known_ratio_spread: NonNegative = 0.0
    """Spread of that share over the classes, as the standard deviation of its log-odds. At 0.8 the share of a class is
    between about half and twice the average."""
    positives_only: bool = False
    """Hide all negative labels."""
    single_positive: bool = False
    """Keep one positive label per image and nothing else."""
    flip_positives: Decay = 0.0
    """Share of the positive labels to turn into negatives before anything is hidden (label noise)."""
    mask_seed: Index | None = None
    """Seed of the hidden labels; default: the seed of the run. 0 is the mask of the published benchmarks."""


@dataclass
class LearningOptions:
    """Learning."""

    epochs: Count | None = None
    """Epochs of the schedule; default: depends on the size of the table."""
    stop_epoch: Count | None = None
    """Stop after this epoch, before the schedule ends (as in the paper's recipe)."""
    batch_size: Annotated[int, Range(minimum=2)] | None = None
    """Images in a step, over all devices."""
    lr: Positive | None = None
    """Highest learning rate."""
    weight_decay: NonNegative = 1e-4
    """Weight decay. Biases and norm layers have none."""
    optimizer: Literal["adamw", "adam"] = "adamw"
    """Optimizer. 'adam' uses L2 regularization, as the reference code does."""
    schedule: Literal["onecycle", "cosine", "constant"] = "onecycle"
    """Schedule of the learning rate."""
    warmup: Decay = 0.2
    """Share of the schedule in which the learning rate rises."""
    ema: Decay | None = None
    """Decay of the averaged weights, which are the ones saved; 0 turns averaging off."""
    clip_norm: Positive | None = None
    """Largest norm of the gradient."""
    augment: Literal["auto", "none", "flip", "crop"] = "auto"
    """Random changes of training images. 'flip' mirrors them; 'crop' also crops them to one of five sizes, as in the
    paper."""
    holdout: Decay = 0.1
    """Share of the training images held out for thresholds and early stopping. Images of a 'val' split are used instead
    if there are any."""
    restore_best: bool | None = None
    """Use the weights of the best epoch, not of the last one; default: at depth 'probe', and with patience. The best
    epoch has the lowest holdout_pu, a criterion that needs no negatives."""
    patience: Index | None = None
    """Stop after this many epochs without improvement, and use the best one; default: 0, which means never. With method
    'distill' the default is 1 at depth 'tail' and 3 at 'finetune'."""
    solve_head: bool | None = None
    """After training, fit a closed-form head on the embeddings of the network; default: with method 'auto'. It is used
    if it ranks held-out tags higher than the closed form does on the network before training; that one is used
    otherwise. For a network with random first weights, it is compared with the network's own head."""
    refit: bool | None = None
    """After thresholds are chosen, train again on all images, held-out images included; default: at depth 'probe',
    unless the table has a 'val' split. Methods without steps ignore it."""
    seed: Index = 0
    """Seed of all random numbers."""


@dataclass
class RuntimeOptions:
    """Run."""

    out: Folder | None = None
    """Folder of the run; default: <table>.positively/runs/<method>, numbered."""
    resume: Literal["never", "auto"] = "never"
    """'auto' continues from the last checkpoint of the run folder if there is one."""
    devices: Count | Literal["auto"] = "auto"
    """Number of devices (processes). 'auto' is all GPUs, or one CPU process."""
    nodes: Count = 1
    """Number of machines."""


@dataclass
class MachineOptions:
    """Machine."""

    accelerator: Name = "auto"
    """cpu, cuda, mps or auto."""
    dtype: Literal["auto", "float32", "float16", "bfloat16", "float64"] = "auto"
    """Number format; float16 and bfloat16 are mixed precision. 'auto' is bfloat16 on GPUs that support it, float16 on
    other GPUs, and float32 on a CPU."""
    workers: Index | None = None
    """Processes that read images; default: one per core up to eight on a GPU, none (threads) on a CPU."""
    runtime: Runtime = "auto"
    """Program that runs a frozen network on a CPU. 'auto' is onnx (ONNX Runtime) for a thousand images and more."""
    cache: Folder | None = None
    """Folder in which embeddings are stored; default: the cache folder of the user."""
    checkpoint_minutes: NonNegative = 10.0
    """Minutes between checkpoints within an epoch. One is also written after each epoch."""


@dataclass
class TrainConfig(ModelOptions, MethodOptions, SettingOptions, LearningOptions, RuntimeOptions, MachineOptions):
    """All options of a training in one flat dataclass.

    The fields choose the method, the network (or files of embeddings), how long and how it learns, the machine, and
    where the run is written. Fields that are None or "auto" are chosen for the table and the machine.
    ``positively train --help-all`` and docs/reference/cli.md explain every field.
    """


GROUPS = (MethodOptions, ModelOptions, LearningOptions, RuntimeOptions, MachineOptions, SettingOptions)
"""The parts of :class:`TrainConfig`, in the order the help shows them."""

RENAMED = {
    "at_least": ("min_probability",),
    "features": ("cache",),
    "fold_cuts": ("fold_thresholds",),
    "options": ("method_options",),
    "precision": ("dtype", "min_precision"),
    "skip_missing": ("skip_missing_images",),
}
"""Names of options in earlier versions → names of today, the first that a verb has; accepted for one release."""

_OLD_DTYPES = {"32-true": "float32", "16-mixed": "float16", "bf16-mixed": "bfloat16", "64-true": "float64"}


def current_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of an earlier version under the names and values of today.

    >>> current_options({"precision": "32-true", "epochs": 3})
    {'dtype': 'float32', 'epochs': 3}
    """
    named = {RENAMED.get(name, (name,))[0]: value for name, value in options.items()}
    if isinstance(named.get("dtype"), str):
        named["dtype"] = _OLD_DTYPES.get(named["dtype"], named["dtype"])
    return named
