"""Find the embedded JPEG previews of camera RAW files. RAW data is not developed; the camera's rendering is used.

Vendors store previews in different places (directories, maker notes, boxes), but all are JPEG streams in the file. They
are found by their markers; TIFF directories are read only for information that the streams do not have.
"""

import io
import struct
from contextlib import suppress
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from typing import BinaryIO

RAW_ENDINGS = (
    *(".dng", ".nef", ".nrw", ".cr2", ".cr3", ".arw", ".srf", ".sr2", ".orf", ".rw2", ".raf", ".pef", ".srw", ".3fr"),
    *(".rwl", ".iiq", ".erf", ".kdc", ".mrw", ".x3f"),
)
"""Lower-case file extensions of camera RAW files."""

_TIFF = (b"II*\0", b"MM\0*")
_OTHERS = (b"IIRO", b"IIRS", b"MMOR", b"IIU\0", b"FUJIFILMCCD-RAW", b"FOVb", b"\0MRM")
_TAGS = (256, 257, 262, 273, 274, 324, 330, 50706)
_WIDTH, _HEIGHT, _PHOTOMETRIC, _STRIPS, _ORIENTATION, _TILES, _BELOW, _DNG = _TAGS
_RGB, _SENSOR = (2,), (32803,)
_NUMBERS = {1: "B", 3: "H", 4: "L", 13: "L"}
# A real file has a few previews, each with a few dozen segments; the limits protect against malicious files.
_MOST_STREAMS, _MOST_SEGMENTS, _MOST_PREVIEWS, _MOST_NUMBERS, _MOST_DIRECTORIES = 4096, 256, 4, 65536, 16

Directory = dict[int, tuple[int, ...]]
"""Values of the relevant tags."""


@dataclass(frozen=True)
class RawPreviews:
    """The previews of a camera RAW file."""

    offsets: list[int]
    """Start of the JPEG streams, the one with the most pixels first."""
    orientation: int
    """EXIF orientation of the file, for previews without their own."""
    has_rgb: bool
    """Whether the TIFF itself has an RGB image; previews are then only those with more pixels."""


def find_previews(file: BinaryIO, name: str) -> RawPreviews | None:
    """Find embedded previews; None if this is not a camera RAW file.

    The file extension matters only if the contents may be a RAW file or an ordinary TIFF.
    """
    file.seek(0)
    start = file.read(16)
    is_tiff = start.startswith(_TIFF)
    is_raw = start.startswith(_OTHERS) or start[4:12] == b"ftypcrx " or (is_tiff and start[8:10] == b"CR")
    if not (is_raw or is_tiff):
        return None
    data = _contents(file)
    directories = _directories(data) or [{}]
    is_raw |= any(_DNG in tags or tags.get(_PHOTOMETRIC) == _SENSOR for tags in directories)
    if not (is_raw or name.lower().endswith(RAW_ENDINGS)):
        return None
    # The tiles of a lossy DNG are JPEG streams too, but not previews.
    pieces = [tags[tag] for tags in directories for tag in (_STRIPS, _TILES) if len(tags.get(tag, ())) > 1]
    streams = _streams(data, {offset for offsets in pieces for offset in offsets})
    width, height, orientation = ((*directories[0].get(tag, ()), 0)[0] for tag in (_WIDTH, _HEIGHT, _ORIENTATION))
    has_rgb = is_tiff and directories[0].get(_PHOTOMETRIC) == _RGB
    offsets = [offset for offset, pixels in streams.items() if pixels > (width * height if has_rgb else 0)]
    offsets.sort(key=streams.__getitem__, reverse=True)
    return RawPreviews(offsets[:_MOST_PREVIEWS], orientation, has_rgb)


def _contents(file: BinaryIO) -> bytes | mmap:
    if isinstance(file, io.BytesIO):
        return file.getvalue()
    try:
        return mmap(file.fileno(), 0, access=ACCESS_READ)
    except OSError:  # some network file systems do not support mmap
        file.seek(0)
        return file.read()


def _streams(data: bytes | mmap, pieces: set[int]) -> dict[int, int]:
    """Number of pixels of each JPEG stream by its offset, without tiles of a larger image."""
    found: dict[int, int] = {}
    offset = -1
    for _ in range(_MOST_STREAMS + len(pieces)):
        offset = data.find(b"\xff\xd8\xff", offset + 1)
        if offset < 0:
            break
        if offset not in pieces:
            with suppress(struct.error):  # the file ends within the header
                found[offset] = _pixels(data, offset + 2)
    return found


def _pixels(data: bytes | mmap, place: int) -> int:
    """Number of pixels of the JPEG stream whose segments start here; 0 if it cannot be displayed."""
    for _ in range(_MOST_SEGMENTS):
        prefix, marker, length = struct.unpack_from(">BBH", data, place)
        # Baseline, extended or progressive; sensor data is lossless JPEG (SOF3) in CR2 and DNG.
        if prefix == 0xFF and marker in (0xC0, 0xC1, 0xC2):
            depth, height, width, components = struct.unpack_from(">BHHB", data, place + 4)
            return int(width * height) if depth == 8 and components in (1, 3) else 0
        # Segments that may come first: tables, restart interval, application data, comments, fill bytes.
        if prefix != 0xFF or not (marker in (0xC4, 0xDB, 0xDD) or marker >= 0xE0):
            return 0
        place += 1 if marker == 0xFF else 2 + length
    return 0


def _directories(data: bytes | mmap) -> list[Directory]:
    """The first TIFF directory and its subdirectories; empty if there is none."""
    # CR3 has it in a box, others at the start; ORF and RW2 have their own magic numbers.
    base = data.find(b"CMT1", 0, 65536) + 4 if data[4:8] == b"ftyp" else 0
    order = {b"II": "<", b"MM": ">"}.get(data[base : base + 2])
    directories: list[Directory] = []
    if order is not None:
        with suppress(struct.error):  # the file ends within a directory
            (offset,) = struct.unpack_from(f"{order}L", data, base + 4)
            directories.append(_directory(data, order, base, offset))
            for offset in directories[0].get(_BELOW, ())[:_MOST_DIRECTORIES]:
                directories.append(_directory(data, order, base, offset))
    return directories


def _directory(data: bytes | mmap, order: str, base: int, offset: int) -> Directory:
    tags: Directory = {}
    (count,) = struct.unpack_from(f"{order}H", data, base + offset)
    for entry in range(base + offset + 2, base + offset + 2 + 12 * count, 12):
        tag, kind, length, place = struct.unpack_from(f"{order}HHLL", data, entry)
        if tag in _TAGS and tag not in tags and kind in _NUMBERS and length <= _MOST_NUMBERS:
            numbers = struct.Struct(f"{order}{length}{_NUMBERS[kind]}")
            # Up to four bytes are stored in the entry itself, longer values elsewhere.
            with suppress(struct.error):
                tags[tag] = numbers.unpack_from(data, entry + 8 if numbers.size <= 4 else base + place)
    return tags
