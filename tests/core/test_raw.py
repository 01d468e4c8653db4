"""Photos as the camera wrote them: the largest preview within is read, upright, whoever made the camera."""

import gc
import io
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from positively.errors import ImageError
from positively.images.decode import content_hash, image_size, is_image_name, load_image, verify_images
from positively.images.raw import RAW_ENDINGS
from wording import assert_names

LARGE, SMALL = (320, 160), (160, 80)
ORIENTATION, PHOTOMETRIC, SENSOR, RGB = 274, 262, 32803, 2
Tags = dict[int, int | tuple[int, ...] | bytes]


def photo(size: tuple[int, int] = LARGE, left: str = "red", right: str = "blue") -> Image.Image:
    image = Image.new("RGB", size, right)
    image.paste(Image.new("RGB", (size[0] // 2, size[1]), left), (0, 0))
    return image


def jpeg(image: Image.Image, orientation: int | None = None, **options: object) -> bytes:
    exif = Image.Exif()
    if orientation is not None:
        exif[ORIENTATION] = orientation
    file = io.BytesIO()
    image.save(file, "JPEG", exif=exif, **options)
    return file.getvalue()


def lossless_jpeg(size: tuple[int, int]) -> bytes:
    """What a CR2 or DNG has of its sensor: the header of a JPEG of many pixels, which no viewer can show."""
    frame = struct.pack(">BBHBHHB", 0xFF, 0xC3, 17, 8, size[1], size[0], 3) + bytes(9)
    return b"\xff\xd8\xff\xc4\x00\x05\x00\x00\x00" + frame + b"\xff\xda\x00\x02" + b"\x55" * 5000 + b"\xff\xd9"


def directory(tags: Tags, order: str, begin: int) -> bytes:
    """A TIFF directory at a place of its file, with the values that do not fit behind it."""
    entries, values = b"", b""
    after = begin + 2 + 12 * len(tags) + 4
    for tag, value in sorted(tags.items()):
        numbers = value if isinstance(value, tuple) else (value,)
        kind, packed = (7, value) if isinstance(value, bytes) else (4, struct.pack(f"{order}{len(numbers)}L", *numbers))
        count = len(packed) if kind == 7 else len(numbers)
        if tag in (ORIENTATION, PHOTOMETRIC):
            kind, packed = 3, struct.pack(f"{order}HH", value, 0)
        if len(packed) > 4:
            values, packed = values + packed, struct.pack(f"{order}L", after + len(values))
        entries += struct.pack(f"{order}HHL", tag, kind, count) + packed.ljust(4, b"\0")
    return struct.pack(f"{order}H", len(tags)) + entries + bytes(4) + values


def tiff(tags: Tags, *streams: bytes, order: str = "<", magic: bytes | None = None) -> bytes:
    magic = magic or (b"II*\0" if order == "<" else b"MM\0*")
    header = magic + struct.pack(f"{order}L", 8) + directory(tags, order, 8)
    return header + bytes(100) + b"".join(stream + bytes(37) for stream in streams)


def cr3(orientation: int, *streams: bytes) -> bytes:
    box = tiff({ORIENTATION: orientation})
    boxes = struct.pack(">L4s", len(box) + 8, b"CMT1") + box
    boxes = struct.pack(">L4s", len(boxes) + 24, b"uuid") + bytes(16) + boxes
    boxes = struct.pack(">L4s", len(boxes) + 8, b"moov") + boxes
    return struct.pack(">L4s4sLLL", 24, b"ftyp", b"crx ", 1, 0, 0) + boxes + b"".join(streams)


def is_photo(image: Image.Image, size: tuple[int, int]) -> bool:
    """Whether this is the photo of that size, upright: red on the left, blue on the right."""
    left, right = np.asarray(image)[:, : size[0] // 4], np.asarray(image)[:, -size[0] // 4 :]
    near = np.abs(left - np.array([255.0, 0, 0])).max() < 20 and np.abs(right - np.array([0, 0, 255.0])).max() < 20
    return bool(image.mode == "RGB" and image.size == size and near)


TURNED = photo().transpose(Image.Transpose.ROTATE_90)
"""As a camera held upright stores it: orientation 6 turns it back."""
FILES = {
    "a.nef": tiff({ORIENTATION: 6}, jpeg(photo(SMALL)), jpeg(TURNED)),
    "a.arw": tiff({ORIENTATION: 6}, jpeg(TURNED), jpeg(photo(SMALL)), order=">"),
    "progressive.pef": tiff({ORIENTATION: 6, PHOTOMETRIC: SENSOR}, jpeg(TURNED, progressive=True), order=">"),
    "a.cr2": tiff({ORIENTATION: 6}, jpeg(TURNED), lossless_jpeg((6000, 4000))),
    "a.orf": tiff({ORIENTATION: 6}, jpeg(TURNED), magic=b"IIRO"),
    "b.orf": tiff({ORIENTATION: 6}, jpeg(TURNED), order=">", magic=b"MMOR"),
    "a.rw2": tiff({ORIENTATION: 6}, jpeg(TURNED), magic=b"IIU\0"),
    "a.raf": b"FUJIFILMCCD-RAW 0201FF383501" + bytes(120) + jpeg(TURNED, 6) + bytes(1000),
    "a.cr3": cr3(6, jpeg(photo(SMALL)), jpeg(TURNED)),
    "a.x3f": b"FOVb" + bytes(200) + jpeg(TURNED, 6),
    "own.nef": tiff({ORIENTATION: 3}, jpeg(TURNED, 6)),
}


@pytest.mark.parametrize("name", FILES)
def test_the_largest_preview_is_read_upright(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    assert is_photo(load_image(tmp_path / name), LARGE)
    assert image_size(tmp_path / name) == LARGE
    assert is_photo(load_image(tmp_path / name, name="image 3"), LARGE), "the ending is that of the file"
    assert is_photo(load_image(FILES[name], name=name), LARGE)
    assert load_image(tmp_path / name, at_least=40).size == (80, 40), "a preview is decoded at reduced size, too"


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_orientation_of_the_file_holds_for_its_preview(tmp_path: Path, orientation: int) -> None:
    undo = [None, *(Image.Transpose(method) for method in (0, 3, 1, 5, 2, 6, 4))][orientation - 1]
    stored = photo() if undo is None else photo().transpose(undo)
    (tmp_path / "a.dng").write_bytes(tiff({ORIENTATION: orientation}, jpeg(stored)))
    image = load_image(tmp_path / "a.dng")
    assert image.size == image_size(tmp_path / "a.dng") == LARGE and is_photo(image, LARGE)


@pytest.mark.parametrize("tags", [{50706: 0x01040000}, {PHOTOMETRIC: SENSOR}])
@pytest.mark.parametrize("order", ["<", ">"])
def test_contents_decide_where_there_is_no_ending(tags: Tags, order: str) -> None:
    assert is_photo(load_image(tiff(tags, jpeg(photo()), order=order)), LARGE)


def test_sensor_data_below_the_first_directory_tell_a_raw_file() -> None:
    begin = 8 + 2 + 12 * 2 + 4
    first = directory({PHOTOMETRIC: RGB, 330: begin}, "<", 8)
    below = directory({PHOTOMETRIC: SENSOR}, "<", begin)
    assert is_photo(load_image(b"II*\0" + struct.pack("<L", 8) + first + below + jpeg(photo())), LARGE)


def test_a_jpeg_and_a_tiff_under_a_raw_name_are_read_as_what_they_are(tmp_path: Path) -> None:
    photo().save(tmp_path / "a.nef", "JPEG")
    photo().save(tmp_path / "a.cr2", "PNG")
    photo().save(tmp_path / "a.dng", "TIFF")
    with (tmp_path / "a.dng").open("ab") as file:
        file.write(jpeg(photo(SMALL, "white", "black")))
    for name in ("a.nef", "a.cr2", "a.dng"):
        assert is_photo(load_image(tmp_path / name), LARGE)


def test_an_ordinary_tiff_with_a_jpeg_inside_is_read_as_before(tmp_path: Path) -> None:
    photo(SMALL).save(tmp_path / "a.tif")
    with (tmp_path / "a.tif").open("ab") as file:
        file.write(jpeg(photo(LARGE, "white", "black")))
    assert is_photo(load_image(tmp_path / "a.tif"), SMALL)


def test_tiles_of_a_lossy_dng_are_not_taken_for_previews(tmp_path: Path) -> None:
    tile, preview = jpeg(photo((512, 512), "white", "black")), jpeg(photo())
    begin = len(tiff({50706: 1, 324: (0, 0)}))
    offsets = (begin, begin + len(tile) + 37)
    (tmp_path / "a.dng").write_bytes(tiff({50706: 1, 324: offsets}, tile, tile, preview))
    assert is_photo(load_image(tmp_path / "a.dng"), LARGE)


def test_of_a_file_cut_short_the_best_whole_preview_is_read(tmp_path: Path) -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (300, 400, 3), dtype=np.uint8))
    contents = tiff({}, jpeg(photo(SMALL)), jpeg(noise))
    (tmp_path / "whole.nef").write_bytes(contents)
    (tmp_path / "cut.nef").write_bytes(contents[: -len(jpeg(noise)) // 2])
    assert load_image(tmp_path / "whole.nef").size == (400, 300)
    assert is_photo(load_image(tmp_path / "cut.nef"), SMALL)


def test_files_without_a_readable_preview_are_sentences(tmp_path: Path) -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (300, 400, 3), dtype=np.uint8))
    broken = {
        "sensor.cr2": (tiff({}, lossless_jpeg((6000, 4000))), "preview"),
        "header.nef": (tiff({}, jpeg(photo()))[:300], "preview"),
        "cut.nef": (tiff({}, jpeg(noise))[:20_000], "truncated"),
        "bomb.nef": (
            tiff({}, jpeg(photo()).replace(struct.pack(">HH", *LARGE[::-1]), b"\xff\xf0\xff\xf0")),
            "preview",
        ),
        "text.cr3": (b"<html>not found</html>", "image"),
        "empty.dng": (b"", "zero bytes"),
    }
    for name, (contents, reason) in broken.items():
        (tmp_path / name).write_bytes(contents)
        with pytest.raises(ImageError) as error:
            load_image(tmp_path / name)
        assert_names(str(error.value), tmp_path / name, reason)
    with pytest.raises(ImageError, match="JPEG"):
        image_size(tmp_path / "sensor.cr2")
    verified = verify_images([tmp_path / name for name in broken])
    reasons = [reason for _, reason in broken.values()]
    assert len(verified.broken) == len(reasons) and all(reasons[i] in said for i, said in verified.broken.items())


def test_raw_files_are_checked_and_hashed_as_files(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in FILES]
    for path in paths:
        path.write_bytes(FILES[path.name])
    verified = verify_images(paths)
    assert verified.broken == {} and verified.hashes == [content_hash(path) for path in paths]
    assert all(is_image_name(f"DSC_0001{ending.upper()}") for ending in RAW_ENDINGS)


def test_hostile_files_end_soon_and_with_a_sentence() -> None:
    looping = {330: tuple([8] * 5000), 324: tuple(range(5000))}
    hostile = {
        "starts of JPEG": tiff({}, b"\xff\xd8\xff" * 1_000_000),
        "fill bytes": tiff({}, b"\xff\xd8" + b"\xff" * 3_000_000),
        "streams within the segments of others": tiff({}, b"\xff\xe0\x00\x04\xff\xd8" * 200_000),
        "directories that hold themselves": tiff(looping),
        "a directory without an end": b"II*\0"
        + struct.pack("<LH", 8, 65535)
        + struct.pack("<HHLL", 324, 4, 65536, 8) * 65535,
        "a directory outside": b"MM\0*\xff\xff\xff\xff" + bytes(100),
        "nothing but a start": b"II*\0",
        "a box without an end": cr3(1)[:60],
    }
    for contents in hostile.values():
        with pytest.raises(ImageError, match="preview"):
            load_image(contents, name="a.nef")


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
@pytest.mark.parametrize("seed", range(20))
def test_damaged_bytes_give_a_picture_or_a_sentence(seed: int) -> None:
    generator = np.random.default_rng(seed)
    for name, contents in FILES.items():
        damaged = np.frombuffer(contents, np.uint8).copy()
        places = generator.integers(0, min(len(damaged), 700), 30)
        damaged[places] = generator.integers(0, 256, 30)
        try:
            assert load_image(damaged[: generator.integers(1, len(damaged))].tobytes(), name=name).mode == "RGB"
        except ImageError as error:
            assert str(error).startswith(f"{name}: ")


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are counted in /proc")
def test_no_file_stays_open(tmp_path: Path) -> None:
    files = FILES | {"broken.nef": tiff({}), "sensor.cr2": tiff({}, lossless_jpeg((6000, 4000)))}
    for name, contents in files.items():
        (tmp_path / name).write_bytes(contents)
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    images, errors = [], []
    for name in files:
        try:
            images.append(load_image(tmp_path / name))
        except ImageError as error:
            errors.append(error)
    assert len(images) == len(FILES) and len(errors) == 2
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
