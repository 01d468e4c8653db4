"""The command line: one module per verb, imported when the verb is called, so that help is quick."""

import difflib
import os
import sys
from importlib import import_module
from pathlib import Path

import positively
from positively.cli.process import is_closed_pipe, leave_group, prepare_process, print_anything
from positively.errors import InterruptedRunError, PositivelyError, explained, in_shell, quoted
from positively.logs import is_first_process, shown

VERBS = {
    "check": "check a table of tags and its images before any computation",
    "missing": "list the tags that are probably missing, and those that look wrong",
    "review": "accept or reject missing tags on a local page that learns from every answer",
    "train": "train a classifier from a table of tags",
    "predict": "tag images with a trained run",
    "evaluate": "score a trained run on a table of test images",
    "report": "write a one-page summary of a trained run",
    "export": "write a trained run for other programs: ONNX, transformers, taggers",
    "embed": "write embeddings of photos to a file",
    "bench": "run the experiments of the paper",
    "demo": "try everything on example data in a minute",
}


def start_here() -> str:
    """The first three commands, for someone who typed no verb."""
    return (
        "Positively finds missing tags and trains image classifiers from incomplete tags.\n\n"
        "Start with a table of tags (image,tags) and a folder of photos:\n\n"
        "  positively check tags.csv --images photos/     is the table read as you mean it?\n"
        "  positively missing tags.csv --images photos/   which tags are probably missing?\n"
        "  positively train tags.csv --images photos/     a model that tags new photos\n\n"
        "positively --help lists all verbs; positively demo shows everything on example data."
    )


def usage() -> str:
    """Help of the whole program."""
    verbs = "\n".join(f"  {verb:<10}{what}" for verb, what in VERBS.items())
    return (
        "usage: positively VERB [options]\n\n"
        "Find missing tags, and train image classifiers from incomplete tags.\n\n"
        f"{verbs}\n\n"
        "positively VERB --help shows the common options of a verb, --help-all every option.\n"
        "--verbose after any verb prints details; --debug shows the traceback of an error."
    )


def main(arguments: list[str] | None = None) -> int:
    """Run one verb and return the exit code: 0 for success, 2 for an error of the user, 130 after Ctrl-C."""
    print_anything()
    try:
        try:
            code = _run(sys.argv[1:] if arguments is None else arguments)
        finally:
            if sys.stdout is not None:  # it is None in Windows programs without a console
                sys.stdout.flush()  # an error at the end of the process could not be caught
        leave_group(code)
        return code
    except OSError as error:
        if not is_closed_pipe(error):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(arguments: list[str]) -> int:
    words = [argument for argument in arguments if argument not in ("--debug", "--verbose")]
    if not words:
        print(start_here())
        return 0
    if words[0] in ("-h", "--help", "--help-all", "help"):
        if words[1:2] and words[1] in VERBS:
            words = [words[1], "--help-all" if words[0] == "--help-all" else "--help"]
        else:
            print(usage())
            return 0
    if words[0] == "--version":
        print(positively.__version__)
        return 0
    verb, rest = words[0], words[1:]
    if verb not in VERBS:
        near = difflib.get_close_matches(verb, VERBS, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        if Path(verb).exists():
            hint = f" To check a table: {quoted('positively', 'check', verb)}"
        print(f"positively has no verb '{verb}'; it has {', '.join(VERBS)}.{hint}", file=sys.stderr)
        return 2
    prepare_process()
    try:
        with shown(shell=True, verbose="--verbose" in arguments):
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
        advice = (
            f" Finished work is stored; run the same command{again} to continue."
            if verb in ("train", "missing", "review", "bench", "demo") or (verb == "predict" and "--out" in arguments)
            else ""
        )
        print(f"Stopped.{advice}", file=sys.stderr)
        return 130
