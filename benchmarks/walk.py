"""Call graph of ``positively missing``: calls from one module of the package to another.

Run as ``python -m benchmarks.walk [TABLE IMAGES] [options of missing]`` from the root of the project, such as
``python -m benchmarks.walk tags.csv photos/ --backbone network.onnx``. Without arguments it creates 60 images and a
small ONNX backbone. To trace an older version: ``PYTHONPATH=OLD/src python benchmarks/walk.py …``.

The verb does five kinds of work, each recognised by an event in the interpreter rather than by our names:

=====  ==================================================================================
read   the file of the table is opened for the first time
embed  ONNX Runtime or a convolution of torch runs
fit    a matrix is decomposed (``eigh``, ``cholesky``)
rank   the last ``lexsort`` before anything is written, which sorts the list
write  a file is written to the output folder
=====  ==================================================================================

**Story**: the functions in which more than one kind of work happens, directly or in their callees. A function below
them does one kind of work and belongs to one room. **Main path**: the calls from functions of the story into another
module. Not counted are shared modules (``SHARED``), helpers of the command line (``cli``, except for the verb itself),
imports, and repeated calls. The results are the numbers of distinct pairs of modules and of functions.

A room that does too much shortens the story, so a second line counts the **whole walk**: all calls from one room to
another, at any depth.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = "positively"
VERB = "positively.cli.missing"
SHARED = {"labels", "errors", "files", "options", "logs", "config", "registry", "machine", "randomness"}
SHARED |= {"lazy", "locking", "manifest", "cli"}
WORK = {
    "eigh": "fit",
    "cholesky": "fit",
    "cho_factor": "fit",
    "lexsort": "rank",
    "linalg_eigh": "fit",
    "linalg_cholesky": "fit",
    "conv2d": "embed",
}
PICTURES, TAGS = 60, ("red", "green")


@dataclass
class Call:
    """A call of a function, and its calls into the package."""

    module: str
    function: str
    parent: Call | None = None
    importing: bool = False
    calls: list[Call] = field(default_factory=list)
    works: set[str] = field(default_factory=set)

    def mark(self, work: str) -> None:
        """Record a kind of work for this call and all its callers."""
        here: Call | None = self
        while here is not None and work not in here.works:
            here.works.add(work)
            here = here.parent

    @property
    def is_story(self) -> bool:
        """Whether more than one kind of work happens in it."""
        return len(self.works) > 1


class Walk:
    """Records the calls of the main thread, and the work of all threads."""

    def __init__(self, table: Path, out: Path) -> None:
        self.root = self._here = Call("", "")
        self._table, self._out, self._is_on = str(table), str(out), False
        self._events: list[tuple[str, Call]] = []
        sys.addaudithook(self._audit)

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Record calls inside the block."""
        self._is_on = True
        threading.setprofile(self._profile_worker)
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            self._is_on = False
        self._mark()

    def _mark(self) -> None:
        """Mark the first read, the last ranking before anything is written, and all other work."""
        works = [work for work, _ in self._events]
        first_write = works.index("write")
        ranks = [place for place in range(first_write) if works[place] == "rank"]
        once = {"read": works.index("read"), "rank": ranks[-1]}
        for place, (work, call) in enumerate(self._events):
            if once.get(work, place) == place:
                call.mark(work)

    def _profile(self, frame: FrameType, event: str, what: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        is_ours = isinstance(module, str) and module.partition(".")[0] == PACKAGE
        if event == "c_call":
            self._work(what.__name__)
        elif event == "call":
            self._work(frame.f_code.co_name, module)
            if is_ours:
                importing = self._here.importing or frame.f_code.co_name == "<module>"
                call = Call(module, _function(frame), self._here, importing)
                self._here.calls.append(call)
                self._here = call
        elif event == "return" and is_ours and self._here.parent is not None:
            self._here = self._here.parent

    def _profile_worker(self, frame: FrameType, event: str, what: Any) -> None:
        if event == "c_call":
            self._work(what.__name__)
        elif event == "call":
            self._work(frame.f_code.co_name, frame.f_globals.get("__name__", ""))

    def _work(self, name: str, module: str = "") -> None:
        if name in WORK and not module.startswith(PACKAGE):
            self._events.append((WORK[name], self._here))
        elif name == "run" and module.startswith("onnxruntime"):
            self._events.append(("embed", self._here))

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._is_on or event != "open" or not isinstance(arguments[0], str | os.PathLike):
            return
        path = os.fspath(arguments[0])
        is_written = bool(arguments[2] & (os.O_WRONLY | os.O_RDWR)) if isinstance(arguments[2], int) else False
        if path == self._table and not is_written:
            self._events.append(("read", self._here))
        elif is_written and isinstance(path, str) and path.startswith(self._out):
            self._events.append(("write", self._here))


def _function(frame: FrameType) -> str:
    """Name of a function; for generated constructors, the name of the dataclass."""
    name = frame.f_code.co_qualname.replace("<locals>.", "")
    is_made = name.startswith("__create_fn__.") and "self" in frame.f_locals
    return f"{type(frame.f_locals['self']).__name__}.{frame.f_code.co_name}" if is_made else name


def room_of(module: str) -> str:
    """Room of a module: the part after the package name."""
    return [*module.split("."), ""][1]


def is_counted(module: str) -> bool:
    """Whether calls into and out of a module count."""
    return module == VERB or room_of(module) not in SHARED


def story(call: Call) -> Iterator[tuple[int, Call, Call]]:
    """Depth, caller and callee of each distinct call of the main path, in order."""
    seen: set[tuple[str, str, str, str]] = set()

    def walk(caller: Call, calls: list[Call], depth: int) -> Iterator[tuple[int, Call, Call]]:
        for callee in calls:
            if callee.importing:
                continue
            if not is_counted(callee.module) or (callee.module == caller.module and not callee.is_story):
                # A shared module that calls back, such as a context manager, is attributed to its caller.
                yield from walk(caller, callee.calls, depth) if callee.is_story else ()
                continue
            key = (caller.module, caller.function, callee.module, callee.function)
            if key not in seen:
                seen.add(key)
                yield depth, caller, callee
            if callee.is_story:
                yield from walk(callee, callee.calls, depth + 1)

    yield from walk(call, call.calls, 1)


def crossings(call: Call) -> dict[tuple[str, str, str, str], None]:
    """Distinct calls from one room to another, as caller's module and function, callee's module and function."""
    found: dict[tuple[str, str, str, str], None] = {}
    pending = [(call, callee) for callee in call.calls]
    while pending:
        caller, callee = pending.pop()
        if callee.importing:
            continue
        # Callbacks from shared modules are attributed to the caller of the shared module.
        is_seen = is_counted(callee.module)
        if is_seen and room_of(caller.module) != room_of(callee.module):
            found[caller.module, caller.function, callee.module, callee.function] = None
        pending += [(callee if is_seen else caller, one) for one in callee.calls]
    return found


def find_verb(call: Call) -> Call:
    """Find the call of the verb's ``main``."""
    pending = [call]
    while pending:
        one = pending.pop(0)
        if (one.module, one.function) == (VERB, "main"):
            return one
        pending += one.calls
    raise SystemExit(f"{VERB}.main was never called.")


def describe(call: Call) -> str:
    """Format the tree and the counts."""
    steps = list(story(call))
    lines = [f"{_name(call)}  [{_works(call)}]"]
    for depth, _, callee in steps:
        lines.append(f"{'  ' * depth}{_name(callee)}" + (f"  [{_works(callee)}]" if callee.works else ""))
    between = [(caller, callee) for _, caller, callee in steps if caller.module != callee.module]
    modules = dict.fromkeys((caller.module, callee.module) for caller, callee in between)
    rooms = sorted({room_of(callee.module) for _, callee in between})
    whole = crossings(call)
    pairs = {(one[0], one[2]) for one in whole}
    lines += ["", *(f"{_short(caller)} → {_short(callee)}" for caller, callee in modules), ""]
    lines += [
        f"Main path: {len(modules)} module → module calls ({len(between)} calls of functions), into {len(rooms)} rooms "
        f"({', '.join(rooms)}).",
        f"Whole walk, room to room: {len(pairs)} module → module calls ({len(whole)} calls of functions), into "
        f"{len({room_of(callee) for _, callee in pairs})} rooms.",
    ]
    return "\n".join(lines)


def _short(module: str) -> str:
    return module.removeprefix(f"{PACKAGE}.")


def _name(call: Call) -> str:
    return f"{_short(call.module)}:{call.function}"


def _works(call: Call) -> str:
    return " ".join(work for work in ("read", "embed", "fit", "rank", "write") if work in call.works)


def draw(folder: Path) -> list[str]:
    """Write images, a table of their tags and a small backbone; returns the arguments of the verb."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper, save
    from PIL import Image

    generator = np.random.default_rng(0)
    truth = generator.random((PICTURES, 2)) < 0.5
    (folder / "photos").mkdir()
    lines = ["image,tags"]
    for number, flags in enumerate(truth):
        pixels = generator.integers(0, 90, (64, 64, 3)) + 150 * np.array([*flags, False])
        Image.fromarray(pixels.astype(np.uint8)).save(folder / "photos" / f"{number}.png")
        known = flags & (generator.random(2) < 0.7)
        lines.append(f"{number}.png,{';'.join(tag for tag, is_known in zip(TAGS, known, strict=True) if is_known)}")
    (folder / "tags.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    weight = numpy_helper.from_array(generator.normal(size=(16, 3, 3, 3)).astype(np.float32), "weight")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "weight"], ["map"], strides=[2, 2]), helper.make_node("Relu", ["map"], ["y"])],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 32, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 16, 15, 15])],
        [weight],
    )
    opset = helper.make_opsetid("", 17)
    save(helper.make_model(graph, opset_imports=[opset], ir_version=10), folder / "small.onnx")
    return [str(folder / "tags.csv"), str(folder / "photos"), "--backbone", str(folder / "small.onnx")]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        table, images, *options = sys.argv[1:] or draw(folder)
        # An empty cache, so that the images are embedded.
        os.environ["POSITIVELY_CACHE"] = str(folder / "cache")
        out = folder / "out"
        from positively.cli import main as run

        walk = Walk(Path(table), out)
        with walk.recorded():
            code = run(["missing", table, "--images", images, "--out", str(out), *options])
        if code:
            raise SystemExit(code)
        print(f"\n{describe(find_verb(walk.root))}")


if __name__ == "__main__":
    main()
