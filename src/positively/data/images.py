"""Image files → upright 8-bit RGB, and the sentences for those that cannot be read. No torch in here."""

import hashlib
import io
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from positively.errors import ImageError

IMAGE_ENDINGS = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"),
    *(".heic", ".heif", ".hif", ".avif", ".jp2", ".ppm", ".pgm"),
)
"""Endings by which a file name is taken for an image, in small letters."""

_HEIF_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}
_STARTS = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"RIFF", b"II*\0", b"MM\0*")
_COPY = "Copy it again from where it came from, or remove it"
_CONVERT = "Save it as JPEG or PNG, or remove it"
_BATCH = 2048


class _BrokenImageError(ImageError):
    """An image error that also knows its reason in a few words."""

    def __init__(self, path: str | Path, reason: str, fix: str):
        super().__init__(f"{path}: {reason}. {fix}.")
        self.reason = reason


def is_image_name(name: str) -> bool:
    """Whether a file of this name is an image, going by its ending.

    >>> is_image_name("photos/A.JPG"), is_image_name("tags.csv")
    (True, False)
    """
    return name.lower().endswith(IMAGE_ENDINGS)


def load_image(path: str | Path, at_least: int | None = None) -> Image.Image:
    """Read an image as it is meant to be seen: upright, RGB, 8 bit; transparent parts become white.

    Args:
        path: The file; its contents, not its ending, decide how it is decoded.
        at_least: A JPEG may come back smaller than it is, by a factor of 2, 4 or 8, as long as both sides keep at least
            this many pixels. Camera photos decode several times faster that way.

    Raises:
        ImageError: The file is missing, empty, truncated, too large or not an image.
    """
    with _as_sentences(path), Path(path).open("rb") as file:
        return _decode(path, file, at_least)


def _decode(path: str | Path, file: BinaryIO, at_least: int | None) -> Image.Image:
    start = file.read(16)
    if not start:
        raise _BrokenImageError(path, "zero bytes", _COPY)
    file.seek(0)
    _prepare(path, start)
    try:
        image = Image.open(file)
    except UnidentifiedImageError:
        raise _unidentified(path, start) from None
    if at_least is not None:
        image.draft(None, (at_least, at_least))
    image.load()
    return _upright_rgb(image)


@dataclass(frozen=True)
class VerifiedImages:
    """What became of images that were tried: the content hash of each, and why some cannot be decoded."""

    hashes: list[str]
    """Empty where the file cannot even be read."""
    broken: dict[int, str]
    """Index → reason in a few words, such as "truncated"."""


def verify_images(paths: Sequence[Path], progress: Callable[[int], None] | None = None) -> VerifiedImages:
    """Read every file once: its content hash is taken, and the image decoded at reduced size.

    Args:
        paths: Files to be tried.
        progress: Called now and then with the number of images tried so far.
    """
    verified = VerifiedImages([], {})
    # Batches keep the queue short, so that Ctrl-C ends a long check at once.
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for begin in range(0, len(paths), _BATCH):
            for index, (code, reason) in enumerate(pool.map(_verify, paths[begin : begin + _BATCH]), begin):
                verified.hashes.append(code)
                if reason is not None:
                    verified.broken[index] = reason
                if progress is not None:
                    progress(index + 1)
    return verified


def find_broken(paths: Sequence[Path], progress: Callable[[int], None] | None = None) -> dict[int, str]:
    """Decode every image once, at reduced size, and list those that fail.

    Args:
        paths: Files to be tried.
        progress: Called now and then with the number of images tried so far.

    Returns:
        Index of the path → reason in a few words, such as "truncated".
    """
    return verify_images(paths, progress).broken


def content_hash(path: str | Path) -> str:
    """Fingerprint of a file's bytes (BLAKE2b, 32 hex digits): the same for copies under other names."""
    with _as_sentences(path), Path(path).open("rb") as file:
        return hashlib.file_digest(file, _new_hash).hexdigest()


def _new_hash(contents: bytes = b"") -> "hashlib.blake2b":
    return hashlib.blake2b(contents, digest_size=16)


def _verify(path: Path) -> tuple[str, str | None]:
    code = ""
    try:
        with _as_sentences(path):
            contents = path.read_bytes()
            code = _new_hash(contents).hexdigest()
            _decode(path, io.BytesIO(contents), at_least=1)
    except _BrokenImageError as error:
        return code, error.reason
    return code, None


def _prepare(path: str | Path, start: bytes) -> None:
    # A photo of 90 to 179 megapixels is a photo. `catch_warnings` is not safe in threads, hence one lasting filter;
    # it is looked up first because setting it again would make Python show other warnings a second time.
    silence = ("ignore", None, Image.DecompressionBombWarning, None, 0)
    if silence not in warnings.filters:
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
    # By contents: telephones like to send HEIC under the name of .jpg.
    if start[4:8] == b"ftyp" and start[8:12] in _HEIF_BRANDS:
        try:
            from pillow_heif import register_heif_opener
        except ImportError:
            fix = "Run: pip install 'positively[heic]'"
            raise _BrokenImageError(path, "a HEIC image needs the package pillow-heif", fix) from None
        register_heif_opener()


def _unidentified(path: str | Path, start: bytes) -> _BrokenImageError:
    if start[4:12] in (b"ftypavif", b"ftypavis"):
        return _BrokenImageError(path, "AVIF is not known to this Pillow", "Run: pip install -U Pillow")
    if start.startswith(_STARTS):
        return _BrokenImageError(path, "truncated", _COPY)
    return _BrokenImageError(path, "not an image", _CONVERT)


@contextmanager
def _as_sentences(path: str | Path) -> Iterator[None]:
    """Turn whatever goes wrong with this file into an ImageError."""
    try:
        yield
    except ImageError:
        raise
    except (FileNotFoundError, NotADirectoryError):
        raise _BrokenImageError(path, "not found", "Check the path and the folder of the images") from None
    except Image.DecompressionBombError:
        raise _BrokenImageError(path, "more pixels than Pillow decodes", "Make it smaller, or remove it") from None
    except Exception as error:  # Pillow's decoders raise nearly every built-in exception on bad bytes.
        if Path(path).is_dir():
            raise _BrokenImageError(path, "a folder, not an image", "Name the image files in it") from None
        if isinstance(error, PermissionError):
            raise _BrokenImageError(path, "no permission to read", "Change its permissions, or remove it") from None
        if isinstance(error, EOFError) or "truncated" in str(error).lower():
            raise _BrokenImageError(path, "truncated", _COPY) from None
        raise _BrokenImageError(path, f"cannot be decoded ({str(error).rstrip('.')})", _CONVERT) from error


def _upright_rgb(image: Image.Image) -> Image.Image:
    with suppress(Exception):  # A damaged EXIF block is no reason to lose the picture.
        ImageOps.exif_transpose(image, in_place=True)
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        image = _to_eight_bit(image)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def _to_eight_bit(image: Image.Image) -> Image.Image:
    """Scale deep greyscale to 8 bit by the range of its type; by its own range where that is not known."""
    values = np.asarray(image, dtype=np.float64)
    values = np.where(np.isfinite(values), values, 0.0)
    low, high = float(values.min()), float(values.max())
    if low < 0.0 or high > 65535.0:
        values, white = values - low, high - low
    elif image.mode == "F" and high <= 255.0:
        white = 1.0 if high <= 1.0 else 255.0
    else:
        white = 65535.0
    return Image.fromarray(np.rint(values * (255.0 / white)).astype(np.uint8))
