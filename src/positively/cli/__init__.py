"""The command line: one verb a file, imported when it is called, so that help costs no torch."""

import difflib
import os
import sys
from importlib import import_module

import positively
from positively.cli.process import is_closed_pipe, leave_group, prepare_process, print_anything
from positively.errors import InterruptedRunError, PositivelyError, explained, in_shell
from positively.logs import is_first_process, shown

VERBS = {
    "demo": "hide tags of scenes of handwritten digits, and find them again",
    "missing": "list the tags that are probably missing from a table, and those that look wrong",
    "review": "accept or reject the tags that are probably missing, on a local page that learns from every answer",
    "train": "train a classifier from a table of tags",
    "evaluate": "score a trained run on a table whose tags are complete",
    "predict": "tag images with a trained run",
    "export": "write a trained run for other programs: as ONNX, or for transformers and timm",
    "report": "write one page about a trained run: how good it is, what is missing, tag by tag",
    "embed": "write embeddings of photos to a file, for the other verbs and for other programs",
    "bench": "run the paper's tables: grids of trainings, resumable, with tables and figures",
    "check": "look at the machine, a table and its splits without training",
}


def usage() -> str:
    """Help of the whole program."""
    verbs = "\n".join(f"  {verb:<10}{what}" for verb, what in VERBS.items())
    return (
        "usage: positively VERB [options]\n\n"
        "Train multi-label image classifiers from positive labels alone, and find the labels that are missing.\n\n"
        f"{verbs}\n\n"
        "positively VERB --help says more; --debug after any verb shows the traceback of an error."
    )


def main(arguments: list[str] | None = None) -> int:
    """Run one verb; 0 if it went well, 2 for an error that is a sentence, 130 if it was interrupted."""
    print_anything()
    try:
        try:
            code = _run(sys.argv[1:] if arguments is None else arguments)
        finally:
            if sys.stdout is not None:  # Windows programs without a console have none
                sys.stdout.flush()  # now: at the end of the process nobody could catch what it raises
        leave_group(code)
        return code
    except OSError as error:
        if not is_closed_pipe(error):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if arguments[0] == "--version":
        print(positively.__version__)
        return 0
    verb, rest = arguments[0], [argument for argument in arguments[1:] if argument != "--debug"]
    if verb not in VERBS:
        near = difflib.get_close_matches(verb, VERBS, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        print(f"positively has no verb '{verb}'; it has {', '.join(VERBS)}.{hint}", file=sys.stderr)
        return 2
    prepare_process()
    try:
        with shown(shell=True):
            return int(import_module(f"positively.cli.{verb}").main(rest) or 0)
    except (PositivelyError, ImportError) as error:
        told = explained(error) if isinstance(error, ImportError) else error
        if "--debug" in arguments or not isinstance(told, PositivelyError):
            raise
        if is_first_process():  # once, not from every process
            print(in_shell(told.message), file=sys.stderr)
        return 130 if isinstance(told, InterruptedRunError) else 2
    except OSError as error:
        if "--debug" in arguments or is_closed_pipe(error):
            raise
        print(": ".join(str(part) for part in (error.filename, error.strerror or error) if part), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        again = " with --resume auto" if verb == "train" else ""
        way_on = (
            f" What was computed is stored; the same command{again} goes on."
            if verb in ("train", "missing", "review", "bench", "demo") or (verb == "predict" and "--out" in arguments)
            else ""
        )
        print(f"Stopped.{way_on}", file=sys.stderr)
        return 130
