"""Lists of the options of a method or a head."""

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from positively.options import describe_options
from positively.pipeline import KernelOptions
from positively.probe import METHOD, ProbeOptions
from positively.registry import METHODS, load_plugin


def list_method(name: str, plugin: str | None) -> None:
    """Print the options of a method."""
    if plugin:
        load_plugin(plugin)
    if name == "auto":
        print(
            "auto uses closed-form where the backbone is frozen, distill where a pretrained network is trained, and "
            "pu-mlc where a network starts from random weights. After training, a probe replaces the head if it ranks "
            "held-out tags higher."
        )
        name = METHOD
    if name == METHOD:  # needs no torch
        print("Fits a kernel classifier on frozen embeddings in closed form. Needs positives only, and no epochs.")
        _list(f"method {name}", "--method-options", ProbeOptions)
        return
    print(_summary(METHODS[name]))
    _list(f"method {name}", "--method-options", METHODS[name].Options)
    for depth in METHODS[name].depths:
        chosen = ", ".join(f"{option} {value}" for option, value in METHODS[name].defaults(depth, {}).items())
        if chosen:
            print(f"Default at depth {depth}: {chosen}.")


def list_head(name: str, plugin: str | None) -> None:
    """Print the options of a head."""
    if plugin:
        load_plugin(plugin)
    if name == "kernel":
        print("Kernel head of the probe: a Gaussian kernel with landmark images, and a linear layer.")
        _list(f"head {name}", "--head-options", KernelOptions)
        return
    from positively.models import HEADS, head_options

    print(_summary(HEADS[name]))
    _list(f"head {name}", "--head-options", head_options(name))


def _summary(kind: type) -> str:
    """First paragraph of a docstring."""
    return " ".join((kind.__doc__ or "").partition("\n\n")[0].split())


def _list(what: str, flag: str, options: type) -> None:
    """Print name, type, default and meaning of every option."""
    rows = describe_options(options)
    if not rows:
        print(f"The {what} has no options.")
        return
    table = Table(title=f"Options of the {what} ({flag}.NAME VALUE)", box=SIMPLE, title_justify="left")
    for head in ("name", "takes", "default", "meaning"):
        table.add_column(head, no_wrap=head == "name")
    for option, takes, default, meaning in rows:
        table.add_row(option, takes, str(default), meaning)
    Console(width=max(Console().width, 110)).print(table, markup=False)
