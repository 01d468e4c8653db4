"""Decode images to upright 8-bit RGB, with clear errors for images that cannot be read."""

import hashlib
import io
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from positively.errors import ImageError
from positively.images.raw import RAW_ENDINGS, RawPreviews, find_previews

ImageSource: TypeAlias = str | Path | bytes | bytearray | memoryview | Image.Image | npt.NDArray[np.generic]
"""A path, the bytes of an image file, a PIL image, or an array H×W, H×W×1, H×W×3 or H×W×4 (uint8, uint16, or float in
[0, 1])."""

IMAGE_ENDINGS = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"),
    *(".heic", ".heif", ".hif", ".avif", ".jp2", ".ppm", ".pgm"),
    *RAW_ENDINGS,
)
"""Lower-case file extensions of images."""

_HEIF_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}
_STARTS = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"RIFF", b"II*\0", b"MM\0*")
_COPY = "Copy it again from its source, or remove it"
_CONVERT = "Save it as JPEG or PNG, or remove it"
_DEVELOP = "Export it as JPEG from your RAW converter, or remove it"
_PASS = "Pass a path, the bytes of an image file, a PIL image or a NumPy array"
_PASS_ARRAY = "Pass H×W, H×W×1, H×W×3 or H×W×4 as uint8, uint16, or float in [0, 1]"
_TURNED = (5, 6, 7, 8)
_BATCH = 2048


class _BrokenImageError(ImageError):
    """An image error with its reason in a few words."""

    def __init__(self, path: str | Path, reason: str, fix: str):
        super().__init__(f"{path}: {reason}. {fix}.")
        self.reason = reason


def is_image_name(name: str) -> bool:
    """Whether a file name has the extension of an image.

    >>> is_image_name("photos/A.JPG"), is_image_name("tags.csv")
    (True, False)
    """
    # macOS writes metadata files with the prefix '._' on disks of other systems.
    return name.lower().endswith(IMAGE_ENDINGS) and "/._" not in f"/{name}"


def load_image(source: ImageSource, at_least: int | None = None, name: str | None = None) -> Image.Image:
    """Read an image as upright 8-bit RGB; transparent parts become white.

    For a camera RAW file, the largest embedded preview is read. The source is never modified.

    Args:
        source: A path, the bytes of an image file, a PIL image or an array. Files are decoded by their contents, not
            their extension.
        at_least: If given, a JPEG may be decoded at 1/2, 1/4 or 1/8 of its size, as long as both sides have at least
            this number of pixels. This is several times faster for camera photos.
        name: Name of the image in errors; by default its path, or "the image".

    Returns:
        The image in mode RGB.

    Raises:
        ImageError: if the image is missing, empty, truncated, too large or not an image.

    >>> load_image(np.zeros((2, 3, 1), np.uint8)).size
    (3, 2)
    """
    if isinstance(source, str | Path):
        with _as_sentences(name or source, source), Path(source).open("rb") as file:
            return _decode(name or source, file, at_least)
    name = name or "the image"
    with _as_sentences(name):
        if isinstance(source, bytes | bytearray | memoryview):
            return _decode(name, io.BytesIO(source), at_least)
        if isinstance(source, Image.Image):
            return _to_rgb(_upright_copy(source))
        if isinstance(source, np.ndarray):
            return _to_rgb(_from_array(name, source))
        raise _BrokenImageError(name, f"{type(source).__name__} is not an image", _PASS)


def image_size(path: str | Path) -> tuple[int, int]:
    """Width and height of an upright image, from its header.

    Raises:
        ImageError: as in :func:`load_image`, except for damage after the header.
    """
    with _as_sentences(path, path), Path(path).open("rb") as file:
        image = next(_opened(path, file), None)
        if image is None:
            raise _no_preview(path)
        width, height = image.size
        with suppress(Exception):  # a damaged EXIF block does not make the image unreadable
            # For TIFF, Pillow has applied the orientation to the size already.
            if image.format != "TIFF" and image.getexif().get(ExifTags.Base.Orientation) in _TURNED:
                return height, width
        return width, height


def _decode(name: str | Path, file: BinaryIO, at_least: int | None) -> Image.Image:
    problem: Exception = _no_preview(name)
    for image in _opened(name, file):
        try:
            if at_least is not None:
                image.draft(None, (at_least, at_least))
            image.load()
        except Exception as error:  # another preview may be intact
            problem = error
        else:
            with suppress(Exception):  # a damaged EXIF block does not make the image unreadable
                ImageOps.exif_transpose(image, in_place=True)
            return _to_rgb(image)
    try:
        raise problem
    finally:
        del problem  # its traceback references this frame, and with it the pixels


def _opened(name: str | Path, file: BinaryIO) -> Iterator[Image.Image]:
    """Yield the image of a file, not decoded yet; for a camera RAW file all readable previews, the largest first."""
    start = file.read(16)
    if not start:
        raise _BrokenImageError(name, "zero bytes", _COPY)
    _prepare(name, start)
    previews = find_previews(file, str(getattr(file, "name", name)))
    if previews is not None:
        yield from _previews(file, previews)
        return
    file.seek(0)
    try:
        image = Image.open(file)
    except UnidentifiedImageError:
        raise _unidentified(name, start) from None
    yield image


def _previews(file: BinaryIO, previews: RawPreviews) -> Iterator[Image.Image]:
    for offset in previews.offsets:
        file.seek(offset)
        with suppress(Exception):  # if Pillow cannot read its header, try the next preview
            image = Image.open(io.BytesIO(file.read()), formats=["JPEG"])
            with suppress(Exception):  # a damaged EXIF block does not make the image unreadable
                image.getexif().setdefault(ExifTags.Base.Orientation, previews.orientation)
            yield image
    if previews.has_rgb:
        file.seek(0)
        with suppress(Exception):
            yield Image.open(file)


@dataclass(frozen=True)
class VerifiedImages:
    """Content hashes of images, and the reasons why some cannot be decoded."""

    hashes: list[str]
    """Content hash of each image; empty if the file cannot be read."""
    broken: dict[int, str]
    """Reason, such as "truncated", by the index of the image."""


def verify_images(paths: Sequence[Path], progress: Callable[[int], None] | None = None) -> VerifiedImages:
    """Read every file once to compute its content hash and to decode it at reduced size.

    Args:
        paths: The image files.
        progress: Called with the number of images verified so far.
    """
    verified = VerifiedImages([], {})
    # Batches keep the queue short, so that Ctrl-C stops a long check immediately.
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for begin in range(0, len(paths), _BATCH):
            for index, (code, reason) in enumerate(pool.map(_verify, paths[begin : begin + _BATCH]), begin):
                verified.hashes.append(code)
                if reason is not None:
                    verified.broken[index] = reason
                if progress is not None:
                    progress(index + 1)
    return verified


def content_hash(path: str | Path) -> str:
    """Hash of a file's contents (BLAKE2b, 32 hex digits), the same for copies with other names."""
    with _as_sentences(path, path), Path(path).open("rb") as file:
        return hashlib.file_digest(file, _new_hash).hexdigest()


def _new_hash(contents: bytes = b"") -> "hashlib.blake2b":
    return hashlib.blake2b(contents, digest_size=16)


def _verify(path: Path) -> tuple[str, str | None]:
    code = ""
    try:
        with _as_sentences(path, path):
            contents = path.read_bytes()
            code = _new_hash(contents).hexdigest()
            _decode(path, io.BytesIO(contents), at_least=1)
    except _BrokenImageError as error:
        return code, error.reason
    return code, None


def _prepare(name: str | Path, start: bytes) -> None:
    # Images of 90 to 179 megapixels are valid. We install one permanent filter because `catch_warnings` is not
    # thread-safe, and only once because setting it again would make Python repeat other warnings.
    silence = ("ignore", None, Image.DecompressionBombWarning, None, 0)
    if silence not in warnings.filters:
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
    # Detected by contents, because phones often send HEIC files named .jpg.
    if start[4:8] == b"ftyp" and start[8:12] in _HEIF_BRANDS:
        try:
            from pillow_heif import register_heif_opener
        except ImportError:
            fix = "Run: pip install 'positively[heic]'"
            raise _BrokenImageError(name, "HEIC images need the package pillow-heif", fix) from None
        register_heif_opener()


def _no_preview(name: str | Path) -> _BrokenImageError:
    return _BrokenImageError(name, "a camera RAW file without a readable preview", _DEVELOP)


def _unidentified(name: str | Path, start: bytes) -> _BrokenImageError:
    if start[4:12] in (b"ftypavif", b"ftypavis"):
        return _BrokenImageError(name, "this version of Pillow cannot read AVIF", "Run: pip install -U Pillow")
    if start.startswith(_STARTS):
        return _BrokenImageError(name, "truncated", _COPY)
    return _BrokenImageError(name, "damaged or not an image", _CONVERT)


@contextmanager
def _as_sentences(name: str | Path, path: str | Path | None = None) -> Iterator[None]:
    """Turn every exception about this image into an ImageError."""
    try:
        yield
    except ImageError:
        raise
    except (FileNotFoundError, NotADirectoryError):
        raise _BrokenImageError(name, "not found", "Check the path and the folder of the images") from None
    except Image.DecompressionBombError:
        raise _BrokenImageError(name, "too many pixels", "Reduce its size, or remove it") from None
    except Exception as error:  # Pillow's decoders raise nearly all built-in exceptions for invalid data
        if path is not None and Path(path).is_dir():
            raise _BrokenImageError(name, "a folder, not an image", "Pass the image files in it") from None
        if isinstance(error, PermissionError):
            raise _BrokenImageError(name, "no permission to read", "Change its permissions, or remove it") from None
        if isinstance(error, EOFError) or "truncated" in str(error).lower():
            raise _BrokenImageError(name, "truncated", _COPY) from None
        raise _BrokenImageError(name, f"damaged or not an image ({str(error).rstrip('.')})", _CONVERT) from error


def _upright_copy(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # a damaged EXIF block does not make the image unreadable
        return image.copy()


def _from_array(name: str, array: npt.NDArray[np.generic]) -> Image.Image:
    is_picture = array.size > 0 and (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4)))
    if not is_picture or not (array.dtype.kind == "f" or array.dtype.str[1:] in ("u1", "u2")):
        raise _BrokenImageError(name, f"an array of shape {array.shape} and type {array.dtype}", _PASS_ARRAY)
    if array.dtype != np.uint8:
        # The range of values follows from the type of an array; other ranges are an error.
        low, high = float(array.min()), float(array.max())
        white = 65535.0 if array.dtype.kind == "u" else 1.0
        if not 0.0 <= low <= high <= white:
            raise _BrokenImageError(name, f"an array of {array.dtype} from {low:g} to {high:g}", _PASS_ARRAY)
        array = np.rint(array.astype(np.float32) * (255.0 / white)).astype(np.uint8)
    return Image.fromarray(array[..., 0] if array.shape[2:] == (1,) else array)


def _to_rgb(image: Image.Image) -> Image.Image:
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
