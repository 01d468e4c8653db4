"""``positively export``: write a run for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from positively.cli.parsing import Parser
from positively.cli.paths import require_run
from positively.errors import plural
from positively.options import Folder, Name

if TYPE_CHECKING:
    from positively.runs.run import Run


def parser() -> Parser:
    """Options of the verb."""
    made = Parser(
        "export",
        "[RUN]",
        "Write a trained run for other programs. 'onnx' is one file for any runtime: RGB pixels in, scores and tags "
        "out. 'transformers' is a folder for transformers and timm, with the linear head (needs torch). 'tagger' is a "
        "folder for image tagging programs. 'hub' goes to the Hugging Face hub, without names and scores of photos. "
        "Each export is compared with the run before it is written.",
        examples=["positively export", "positively export tags.positively/runs/auto --format tagger"],
        common=[
            *("format", "out", "int8", "images", "fold_thresholds", "push_to", "min_precision", "head", "plugin"),
        ],
    )
    made.add_place("run", "Run folder; default: the latest run in this folder.", required=False)
    made.add("format", Literal["onnx", "transformers", "tagger", "hub"], "onnx", "Format to write.")
    made.add("out", Name | None, None, "File or folder to write; default: a name by the format, in the run folder.")
    made.add("push_to", Name | None, None, "With 'hub': repository to push to, such as me/tagger.")
    made.add_switch("int8", "With 'onnx': store the backbone in 8-bit integers, calibrated on the photos of the run.")
    made.add(
        "images", Folder | None, None, "With --int8: folder of the run's photos; default: where they were in training."
    )
    made.add_switch(
        "fold_thresholds", "With 'transformers': move thresholds into biases, so that each threshold is 0.5."
    )
    made.add_run_use()
    made.add_plugin()
    return made


def main(arguments: list[str]) -> int:
    """Export the run and print what was written."""
    values = parser().parse(arguments)
    values.run = require_run(values.run)
    from positively.registry import load_plugin
    from positively.runs.run import Run

    _refuse_idle_options(values)
    if values.plugin:
        load_plugin(values.plugin)
    run = Run(values.run, device="cpu", head=values.head, min_precision=values.min_precision)
    writers = {"onnx": _write_onnx, "transformers": _write_transformers, "tagger": _write_tagger, "hub": _write_hub}
    print(writers[values.format](run, values))
    return 0


def _refuse_idle_options(values: Any) -> None:
    """Raise if an option does not apply to the format."""
    from positively.errors import ConfigError, option

    if values.fold_thresholds and values.format != "transformers":
        raise ConfigError(
            f"{option('fold_thresholds')} needs {option('format', 'transformers')}. The other formats "
            "keep one threshold per class."
        )
    if (values.push_to is not None) and values.format != "hub":
        raise ConfigError(f"{option('push_to')} needs {option('format', 'hub')}.")
    if values.format == "hub" and (values.push_to is None) == (values.out is None):
        raise ConfigError(
            f"{option('format', 'hub')} needs {option('push_to', 'me/tagger')} to push the run, or "
            f"{option('out', 'DIR')} to write what would be pushed."
        )
    if values.format == "hub" and not values.head is values.min_precision is None:
        raise ConfigError(
            f"{option('head')} and {option('min_precision')} do not apply to the hub, which gets the run as it is."
        )
    if values.int8 and values.format != "onnx":
        raise ConfigError(f"{option('int8')} needs {option('format', 'onnx')}, which is the default.")
    if values.images is not None and not values.int8:
        raise ConfigError(f"{option('images')} needs {option('int8')}. Other exports do not use photos.")


def _write_transformers(run: Run, values: Any) -> str:
    from positively.registry import TORCH

    folder = TORCH["transformers"](run, values.out, fold_thresholds=values.fold_thresholds)
    return f"{folder}: for transformers and timm, with the linear head."


def _write_hub(run: Run, values: Any) -> str:
    if values.push_to is not None:
        return f"Pushed: {run.push_to_hub(values.push_to)}"
    folder = run.push_to_hub(run.path.resolve().name, dry_run=values.out)
    return f"{folder}: what would be pushed to the hub. po.Run.from_pretrained({folder!r}) opens it."


def _write_tagger(run: Run, values: Any) -> str:
    from positively.export import export_tagger

    made = export_tagger(run, values.out)
    return (
        f"{made.path}: model.onnx, selected_tags.csv, preprocess.json and categories.json, for image tagging programs. "
        f"The scores differ from those of the run by at most {made.difference:.1g}."
    )


def _write_onnx(run: Run, values: Any) -> str:
    from positively.export import export_int8, export_onnx

    if values.int8:
        small = export_int8(run, values.out, images=values.images)
        path, any_size = small.path, small.any_size
        told = f"It was calibrated on {plural(small.calibrated, 'photo')} of the table. {small.loss}"
    else:
        made = export_onnx(run, values.out)
        path, any_size = made.path, made.any_size
        told = f"The scores differ from those of the run by at most {made.difference:.1g}."
    size = run.image_size
    sizes = f"of any size in steps of 32 pixels, best at {size}" if any_size else f"of {size}×{size} pixels"
    return f"{path} ({path.stat().st_size / 1e6:.1f} MB) takes any number of images {sizes}. {told}"
