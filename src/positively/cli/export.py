"""``positively export``: a run for other programs."""

from typing import Literal

from positively.cli.parsing import Parser


def parser() -> Parser:
    """Options of the verb."""
    made = Parser(
        "export",
        "RUN",
        "Write a trained run for other programs. 'onnx' is one file for any runtime: it takes RGB pixels in [0, 1] of "
        "any number of images and gives scores and tags, with normalisation, head, sigmoid and cuts inside, classes "
        "and sizes in its metadata. 'transformers' is a folder that transformers and timm load by themselves: the "
        "linear head on the same backbone; train has written it already. Both are compared with torch before they are "
        "there.",
    )
    made.add_argument("run", type=str, help="run folder")
    made.add_argument("--format", type=Literal["onnx", "transformers"], default="onnx", help="what to write")
    made.add_argument(
        "--out",
        type=str | None,
        default=None,
        help="the file, or the folder; default: model.onnx, or transformers, in the run folder",
    )
    made.add_switch(
        "fold_cuts", help="with 'transformers': move each class's cut into its bias, so that 0.5 is the cut"
    )
    made.add_run_use()
    made.add_plugin()
    return made


def main(arguments: list[str]) -> int:
    """Export, say what was written."""
    values = parser().parse(arguments)
    from positively.errors import ConfigError, option
    from positively.export import export_onnx, export_transformers
    from positively.predict import Run
    from positively.registry import load_plugin

    if values.plugin:
        load_plugin(values.plugin)
    run = Run(values.run, device="cpu", head=values.head, precision=values.precision)
    if values.format == "transformers":
        print(f"{export_transformers(run, values.out, fold_cuts=values.fold_cuts)}: for transformers and timm.")
        return 0
    if values.fold_cuts:
        raise ConfigError(
            f"{option('fold_cuts')} goes with {option('format', 'transformers')}: ONNX has cuts of its own."
        )
    made = export_onnx(run, values.out)
    size = run.model.backbone.image_size
    sizes = f"sides in steps of 32, best at {size}" if made.any_size else f"{size}×{size} pixels"
    print(
        f"{made.path} ({made.path.stat().st_size / 1e6:.1f} MB): any number of images, {sizes}. Scores differ from "
        f"torch's by {made.difference:.1g} at most, at batches of 1, 2 and 5."
    )
    return 0
