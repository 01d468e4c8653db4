"""What works on Linux works on macOS and Windows: processes, paths, locks and consoles, as far as Linux can tell.

What the code may not ask of a system (modules of one system, text without an encoding) is checked by ruff.
Where only the system differs, ``sys.platform`` is set, or what Windows would refuse is refused in its place.
"""

import errno
import io
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors import SafetensorError

import shapes
from positively import cli, files
from positively.cli import VERBS, process
from positively.embedding.cache import FeatureStore, default_store
from positively.errors import FileError, RunError, in_shell, option, quoted
from positively.files import safe_name, write_text, write_with
from positively.images import paths as places
from positively.missing.files import MissingFolder
from positively.report.run.contents import RunContents
from positively.report.run.wording import evaluated_table
from positively.review import serving
from positively.runs.folder import RunFolder
from positively.runs.locking import HOLDER, LOCK
from positively.tables.reading import read_labels
from wording import naming


@pytest.fixture
def windows(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")


# Files


def test_a_file_is_flushed_by_a_handle_that_may_write(tmp_path, monkeypatch):
    """Windows flushes no other (EBADF)."""
    flushed, flush = [], os.fsync

    def write_nothing_and_flush(handle):
        os.write(handle, b"")
        flushed.append(flush(handle))

    monkeypatch.setattr(os, "fsync", write_nothing_and_flush)
    write_text(tmp_path / "a", "text")
    assert flushed and (tmp_path / "a").read_text() == "text"


def test_lines_end_the_same_on_every_system(tmp_path, monkeypatch):
    """Python turns every line end into the system's, unless it is told not to."""
    opened, real = [], io.open

    def look(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None):
        opened.append((mode, newline))
        return real(file, mode, buffering, encoding, errors, newline)

    monkeypatch.setattr(io, "open", look)
    write_text(tmp_path / "a.csv", "a\nb\n")
    assert ("w", "") in opened


def refuse(times, real):
    """Refuse some times, as Windows does while another program has a file open."""
    left = iter(range(times))

    def replace(self, target):
        if next(left, None) is not None:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self), None, str(target))
        return real(self, target)

    return replace


def test_a_file_that_a_scanner_holds_for_a_moment_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_PAUSES", (0.0, 0.0))
    monkeypatch.setattr(Path, "replace", refuse(2, Path.replace))
    write_text(tmp_path / "a", "new")
    assert (tmp_path / "a").read_text() == "new"


def test_a_file_that_stays_open_elsewhere_is_a_sentence(tmp_path, monkeypatch, windows):
    (tmp_path / "a").write_text("old")
    monkeypatch.setattr(Path, "replace", refuse(9, Path.replace))
    with pytest.raises(FileError, match=naming("Permission denied", "other programs")):
        write_text(tmp_path / "a", "new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "old")]


def test_a_path_too_long_for_windows_is_called_that(tmp_path, windows):
    def too_long(temporary):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    with pytest.raises(FileError, match=naming("Windows", "259")):
        write_with(tmp_path / ("b" * 120) / ("a" * 140), too_long)


def test_numbers_of_windows_errors_are_understood(monkeypatch):
    class WindowsError(OSError):
        """As on Windows: of four arguments, the last says what errno is."""

        def __new__(cls, *arguments):
            return OSError({112: errno.ENOSPC}[arguments[3]], "")

    full = SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
    assert files._failed_write(full) == errno.ENOSPC
    monkeypatch.setattr(files, "OSError", WindowsError, raising=False)
    full = SafetensorError("Error while serializing: I/O error: There is not enough space. (os error 112)")
    assert files._failed_write(full) == errno.ENOSPC


def test_a_name_holds_nothing_that_windows_reserves():
    assert safe_name('a<b>c:d"e/f\\g|h?i*j\n. ') == "a-b-c-d-e-f-g-h-i-j-"
    ours = "coco-mini-probe-pu-mlc-known37.5-seed0-0123456789"
    assert safe_name(ours) == ours, "a cell that was computed keeps its name"


# Names of images


def test_a_name_in_a_table_has_slashes_on_windows_too(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    for name in ("sub/a.jpg", "sub\\a.jpg"):  # to Windows these are one file
        (tmp_path / name).touch()
    assert places.locate(["sub\\a.jpg", "sub/a.jpg"], tmp_path) == ["sub\\a.jpg", "sub/a.jpg"]
    monkeypatch.setattr(os, "sep", "\\")
    assert places.locate(["sub\\a.jpg", ".\\sub/a.jpg", "sub\\b.jpg"], tmp_path) == ["sub/a.jpg", "sub/a.jpg", None]


def test_lines_of_one_image_are_united_however_it_is_written(scenes, tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.png").write_bytes((scenes / "train" / "00000.png").read_bytes())
    (tmp_path / "tags.csv").write_text("image,tags\nsub\\a.png,cat\nsub/a.png,dog\n")
    monkeypatch.setattr(os, "sep", "\\")
    table, _ = read_labels(tmp_path / "tags.csv")
    assert list(table.images) == ["sub/a.png"] and table.states().tolist() == [[1, 1]]


@pytest.mark.parametrize("table", ["C:\\data\\test.csv", "data/test.csv", "data\\new/test.csv", "test.csv"])
def test_a_report_names_the_file_whatever_system_evaluated(table):
    contents = object.__new__(RunContents)
    object.__setattr__(contents, "evaluation", {"table": table})
    assert evaluated_table(contents) == "test.csv"


def test_a_command_to_copy_suits_the_shell_of_the_system(windows):
    assert in_shell(option("out", "C:\\my runs")) == '--out "C:\\my runs"'
    assert in_shell(option("aliases", "C:\\a.csv")) == "--aliases C:\\a.csv"
    assert quoted("positively", "review", "my tags.csv") == 'positively review "my tags.csv"'


def test_a_command_to_copy_suits_a_posix_shell():
    assert in_shell(option("out", "my $runs")) == "--out 'my $runs'"
    assert quoted("positively", "review", "my tags.csv") == "positively review 'my tags.csv'"


# Folders and locks


@pytest.mark.parametrize(
    ("platform", "given", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "xdg", "LOCALAPPDATA": "local"}, "xdg"),
        ("linux", {}, "home/.cache"),
        ("darwin", {}, "home/.cache"),
        ("win32", {"LOCALAPPDATA": "local"}, "local"),
        ("win32", {}, "home/.cache"),
        ("win32", {"POSITIVELY_CACHE": "own", "LOCALAPPDATA": "local"}, "own"),
        ("linux", {"POSITIVELY_CACHE": "own", "XDG_CACHE_HOME": "xdg"}, "own"),
    ],
)
def test_features_are_stored_where_the_system_has_its_caches(platform, given, expected, monkeypatch):
    for name in ("POSITIVELY_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: Path("home"))
    assert default_store() == Path(expected) / "positively" / "features"


def test_nobody_is_killed_on_windows(tmp_path, monkeypatch, windows):
    """os.kill(pid, 0) looks whether a process lives; on Windows it would end it."""
    monkeypatch.setattr(os, "kill", lambda *given: pytest.fail("os.kill was called"))
    with (
        RunFolder.open(str(tmp_path), "x", resume=False),
        pytest.raises(RunError, match=naming("in use", os.getpid())),
    ):
        RunFolder.open(str(tmp_path), "x", resume=True)


def test_who_holds_a_folder_can_be_read_though_the_lock_cannot(tmp_path, monkeypatch):
    """On Windows a locked file can be neither read nor written but by the handle that locked it."""

    def guarded(real):
        def call(self, *given, **options):
            if self.name == LOCK:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))
            return real(self, *given, **options)

        return call

    for name in ("open", "read_text", "write_text", "unlink"):
        monkeypatch.setattr(Path, name, guarded(getattr(Path, name)))
    folder = RunFolder.open(str(tmp_path / "run"), "x", resume=False)
    with pytest.raises(RunError, match=naming("in use", os.getpid())):
        RunFolder.open(str(tmp_path / "run"), "x", resume=False)
    folder.close()
    assert not (tmp_path / "run" / HOLDER).exists()
    RunFolder.open(str(tmp_path / "run"), "x", resume=False).close()


def test_a_store_goes_on_when_a_segment_is_mapped_by_another_process(tmp_path, monkeypatch):
    """Windows removes no file that is mapped, and refuses to look at one that is being removed."""
    keys = [tmp_path / (digit * 24) for digit in "ab"]
    for number, folder in enumerate(keys):
        FeatureStore(folder, 10**9).add([f"{number:064x}"], np.zeros((1, 1000), np.float32))
    old, new = (next(folder.glob("*.safetensors")) for folder in keys)
    os.utime(old, (1, 1))
    monkeypatch.setattr("positively.embedding.cache._in_use", set())
    unlink = Path.unlink

    def refuse_old(self, missing_ok=False):
        if self == old:
            raise PermissionError(errno.EACCES, "mapped", str(self))
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse_old)
    FeatureStore(keys[0], 9000).add(["f" * 64], np.zeros((1, 1000), np.float32))
    assert old.exists() and not new.exists(), "what can be removed makes room in its place"


def test_a_segment_that_is_being_removed_takes_no_room(tmp_path, monkeypatch):
    from positively.embedding import cache as store

    def refused(self, **options):
        raise PermissionError(errno.EACCES, "delete pending", str(self))

    monkeypatch.setattr(Path, "stat", refused)
    assert store._size(tmp_path / "a") == 0 and store._last_use(tmp_path / "a") == 0.0


def test_a_disk_that_is_not_there_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "exists", lambda self: False)  # on Windows Z:\ itself may be missing
    monkeypatch.setattr(Path, "is_dir", lambda self: False)
    with pytest.raises(FileError, match="missing"):
        MissingFolder(tmp_path / "missing")


# Processes that read images


# Consoles


@pytest.mark.parametrize(
    "console",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "cp437"},
        {"PYTHONIOENCODING": "cp1252"},
        {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"},
    ],
    ids=lambda console: "-".join(console.values()),
)
def test_a_console_without_our_letters_shows_everything(console, environment, scenes, tmp_path):
    rows = [f"{scenes}/train/0000{number}.png,{'σ≥τ' if number else '猫'}" for number in range(4)]
    (tmp_path / "tags.csv").write_text("\n".join(["image,tags", *rows]), encoding="utf-8")
    program = (
        "import sys\nfrom positively.cli import main\n"
        "for words in sys.argv[1:]:\n"
        "    try: code = main(words.split('|'))\n"
        "    except SystemExit as stopped: code = stopped.code\n"
        "    assert code == 0, (words, code)\n"
    )
    words = ["--help", *(f"{verb}|--help" for verb in VERBS)]
    words += [f"check|{tmp_path / 'tags.csv'}"]
    own = ("LC_", "LANG", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONCOERCECLOCALE")
    given = {name: value for name, value in environment.items() if not name.startswith(own)}
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, env=given | console, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    assert rb"\u732b" in done.stdout, "the tag is told apart from others"


def test_a_console_without_our_letters_does_not_stop_a_training(environment, scenes, tmp_path):
    (tmp_path / "猫").mkdir()
    shapes.write_backbone(tmp_path / "colors.onnx")
    words = ["train", scenes / "train.csv", "--backbone", tmp_path / "colors.onnx", "--out", tmp_path / "猫" / "run"]
    command = [sys.executable, "-m", "positively", *map(str, words)]
    env = environment | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=env, capture_output=True, timeout=300)
    assert done.returncode == 0 and rb"\u732b" in done.stderr, done.stderr.decode()


@pytest.mark.parametrize("words", [["--help"], ["missing", "--help"], ["check"]], ids=" ".join)
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["at the end", "at once"])
def test_a_reader_who_has_had_enough_is_no_error(words, unbuffered, environment):
    command = [sys.executable, "-m", "positively", *words]
    env = environment | {"PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait() == 0


def test_a_closed_pipe_of_windows_is_known_by_its_number(windows):
    assert process.is_closed_pipe(OSError(errno.EINVAL, "Invalid argument"))
    assert not process.is_closed_pipe(OSError(errno.EINVAL, "Invalid argument", "a.csv"))
    assert not process.is_closed_pipe(OSError(errno.ENOSPC, "No space left on device"))


def test_only_windows_has_that_number():
    assert not process.is_closed_pipe(OSError(errno.EINVAL, "Invalid argument"))


def test_a_program_without_a_console_runs(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert cli.main(["--version"]) == 0


# The review page


def test_a_port_is_ones_own_on_windows_and_a_reserved_one_is_passed_over(monkeypatch, windows):
    set_options, bound = [], []

    class Socket:
        def __init__(self, *kind):
            pass

        def setsockopt(self, *given):
            set_options.append(given)

        def bind(self, address):
            bound.append(address[1])
            if len(bound) == 1:
                raise PermissionError(errno.EACCES, "reserved by Hyper-V")

        def listen(self, waiting):
            pass

        def close(self):
            pass

    monkeypatch.setattr(socket, "socket", Socket)
    monkeypatch.setattr(socket, "SO_EXCLUSIVEADDRUSE", -5, raising=False)
    serving.listen("127.0.0.1", None)
    assert bound == [serving.DEFAULT_PORT, serving.DEFAULT_PORT + 1]
    assert set_options == [(socket.SOL_SOCKET, -5, 1)] * 2


def test_a_page_that_the_browser_still_has_open_does_not_end_a_review_with_an_error(tmp_path, monkeypatch):
    def held(self, missing_ok=False):
        raise PermissionError(errno.EACCES, "open in the browser", str(self))

    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(Path, "unlink", held)
    monkeypatch.setattr(serving.webbrowser, "open", lambda address: None)
    with serving.in_browser("http://127.0.0.1/?token=a"):
        assert len(list(tmp_path.iterdir())) == 1
