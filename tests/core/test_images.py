"""Whatever the camera, the scanner or the telephone wrote: upright, RGB, 8 bit, or a sentence."""

import gc
import io
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from positively.errors import ImageError
from positively.images.decode import ImageSource, content_hash, image_size, load_image, verify_images
from positively.images.transforms import ImageTransform
from wording import assert_names, naming

ORIENTATION = 0x0112


def two_halves(size: tuple[int, int] = (64, 32), left: str = "red", right: str = "blue") -> Image.Image:
    image = Image.new("RGB", size, right)
    image.paste(Image.new("RGB", (size[0] // 2, size[1]), left), (0, 0))
    return image


def rotated(path: Path, image: Image.Image, orientation: int) -> Path:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    image.save(path, exif=exif)
    return path


def is_near(pixel: object, expected: tuple[int, int, int], tolerance: int = 12) -> bool:
    return bool(np.abs(np.subtract(pixel, expected)).max() <= tolerance)


def test_a_plain_photo_comes_back_as_it_is(tmp_path: Path) -> None:
    two_halves().save(tmp_path / "a.png")
    image = load_image(tmp_path / "a.png")
    assert image.mode == "RGB" and image.size == (64, 32)
    assert np.array_equal(np.asarray(image), np.asarray(two_halves()))
    assert load_image(str(tmp_path / "a.png")).size == (64, 32)


@pytest.mark.parametrize("ending", ["jpg", "png", "webp", "tif"])
def test_a_turned_camera_gives_an_upright_image(tmp_path: Path, ending: str) -> None:
    image = load_image(rotated(tmp_path / f"a.{ending}", two_halves(), 6))
    assert image.size == (32, 64)
    assert is_near(image.getpixel((16, 8)), (255, 0, 0)) and is_near(image.getpixel((16, 56)), (0, 0, 255))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_orientation_puts_the_same_corner_on_top(tmp_path: Path, orientation: int) -> None:
    upright = Image.new("RGB", (48, 32), "white")
    upright.paste(Image.new("RGB", (16, 16), "black"), (0, 0))
    undo = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    stored = upright.transpose(undo[orientation]) if orientation in undo else upright
    image = load_image(rotated(tmp_path / "a.jpg", stored, orientation))
    assert image.size == (48, 32)
    assert is_near(image.getpixel((6, 6)), (0, 0, 0), 20) and is_near(image.getpixel((42, 26)), (255, 255, 255), 20)


@pytest.mark.parametrize("at_least", [1, 50, 100, 101, 200, 224, 225, 448, 5000])
@pytest.mark.parametrize("orientation", [1, 6])
def test_reduced_decoding_never_goes_below_the_size_asked_for(tmp_path: Path, at_least: int, orientation: int) -> None:
    path = rotated(tmp_path / "a.jpg", two_halves((1203, 899)), orientation)
    full, image = load_image(path).size, load_image(path, at_least).size
    assert min(image) >= min(at_least, 899)
    assert (image[0] > image[1]) == (full[0] > full[1])
    factor = round(full[0] / image[0])
    assert factor == 8 or min(full) // (2 * factor) < at_least, "it could have been reduced further"


def test_cmyk_of_a_print_shop_keeps_its_colours(tmp_path: Path) -> None:
    two_halves(left="white", right="red").convert("CMYK").save(tmp_path / "a.jpg", quality=95)
    assert b"Adobe" in (tmp_path / "a.jpg").read_bytes()[:200], "Pillow writes inverted CMYK, as Photoshop does"
    two_halves(left="white", right="red").convert("CMYK").save(tmp_path / "a.tif")
    for name in ("a.jpg", "a.tif"):
        image = load_image(tmp_path / name)
        assert image.mode == "RGB"
        assert is_near(image.getpixel((8, 8)), (255, 255, 255)) and is_near(image.getpixel((56, 8)), (255, 0, 0))


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_parts_become_white(tmp_path: Path, mode: str) -> None:
    image = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    image.paste(Image.new("RGBA", (4, 8), (0, 0, 0, 255)), (0, 0))
    image.convert(mode).save(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as stored:
        assert stored.mode == mode
    loaded = load_image(tmp_path / "a.png")
    assert loaded.getpixel((0, 0)) == (0, 0, 0) and loaded.getpixel((7, 0)) == (255, 255, 255)


def test_half_transparent_is_mixed_with_white(tmp_path: Path) -> None:
    Image.new("RGBA", (4, 4), (0, 0, 0, 128)).save(tmp_path / "a.png")
    assert is_near(load_image(tmp_path / "a.png").getpixel((0, 0)), (127, 127, 127), 1)


def test_transparency_by_one_colour_becomes_white(tmp_path: Path) -> None:
    palette = two_halves().convert("P", palette=Image.Palette.ADAPTIVE, colors=4)
    palette.save(tmp_path / "a.gif", transparency=palette.getpixel((0, 0)))
    two_halves().save(tmp_path / "a.png", transparency=(255, 0, 0))
    for name in ("a.gif", "a.png"):
        image = load_image(tmp_path / name)
        assert image.getpixel((0, 0)) == (255, 255, 255) and is_near(image.getpixel((63, 0)), (0, 0, 255))


@pytest.mark.parametrize("mode", ["L", "1", "P"])
def test_grey_black_and_white_and_palette_are_rgb(tmp_path: Path, mode: str) -> None:
    two_halves(left="white", right="black").convert(mode).save(tmp_path / "a.png")
    image = load_image(tmp_path / "a.png")
    assert image.mode == "RGB"
    assert image.getpixel((0, 0)) == (255, 255, 255) and image.getpixel((63, 0)) == (0, 0, 0)


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("a.png", np.array([[0, 32768, 65535]], np.uint16), [0, 128, 255]),
        ("a.tif", np.array([[0, 32768, 65535]], np.uint16), [0, 128, 255]),
        ("a.tif", np.array([[0, 32768, 65535]], np.int32), [0, 128, 255]),
        ("a.tif", np.array([[-100, 0, 100]], np.int32), [0, 128, 255]),
        ("a.tif", np.array([[0, 0.5, 1.0]], np.float32), [0, 128, 255]),
        ("a.tif", np.array([[0, 128, 255]], np.float32), [0, 128, 255]),
        ("a.tif", np.array([[np.nan, 0.5, 1.0]], np.float32), [0, 128, 255]),
        ("a.tif", np.array([[0, 1e6, 2e6]], np.float32), [0, 128, 255]),
    ],
)
def test_deep_grey_is_scaled_and_not_clipped(
    tmp_path: Path, name: str, values: np.ndarray, expected: list[int]
) -> None:
    Image.fromarray(values).save(tmp_path / name)
    image = load_image(tmp_path / name)
    assert image.mode == "RGB"
    assert np.abs(np.asarray(image)[0, :, 0].astype(int) - expected).max() <= 1


def test_a_damaged_exif_block_does_not_cost_the_picture(tmp_path: Path) -> None:
    two_halves().save(tmp_path / "a.jpg", exif=b"Exif\0\0" + b"XX*\0" + b"\xff" * 40)
    assert load_image(tmp_path / "a.jpg").size == (64, 32)


def test_telephone_photos_load_even_under_a_wrong_ending(tmp_path: Path) -> None:
    heif = pytest.importorskip("pillow_heif")
    heif.from_pillow(two_halves((128, 64))).save(tmp_path / "a.heic")
    (tmp_path / "b.jpg").write_bytes((tmp_path / "a.heic").read_bytes())
    for name in ("a.heic", "b.jpg"):
        image = load_image(tmp_path / name)
        assert image.size == (128, 64) and is_near(image.getpixel((16, 32)), (255, 0, 0), 20)


def test_without_the_heic_package_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.heic").write_bytes(b"\0\0\0\x18ftypheic" + b"\0" * 100)
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(ImageError, match=r"pip install 'positively\[heic\]'"):
        load_image(tmp_path / "a.heic")


def broken_files(folder: Path) -> dict[str, str]:
    noise = np.random.default_rng(0).integers(0, 256, (200, 300, 3), dtype=np.uint8)
    for ending in ("jpg", "png"):
        Image.fromarray(noise).save(folder / f"whole.{ending}")
        content = (folder / f"whole.{ending}").read_bytes()
        (folder / f"half.{ending}").write_bytes(content[: len(content) // 2])
    (folder / "start.jpg").write_bytes((folder / "whole.jpg").read_bytes()[:40])
    (folder / "start.png").write_bytes((folder / "whole.png").read_bytes()[:12])
    (folder / "empty.jpg").touch()
    (folder / "text.jpg").write_text("<html>not found</html>")
    (folder / "folder.jpg").mkdir()
    return {
        "whole.jpg": "",
        "half.jpg": "truncated",
        "half.png": "truncated",
        "start.jpg": "truncated",
        "start.png": "truncated",
        "empty.jpg": "zero bytes",
        "text.jpg": "image",
        "nowhere.jpg": "not found",
        "whole.jpg/a.jpg": "not found",
        "folder.jpg": "folder",
        "whole.png": "",
    }


def test_every_broken_file_is_a_sentence_with_path_and_reason(tmp_path: Path) -> None:
    for name, reason in broken_files(tmp_path).items():
        if reason:
            with pytest.raises(ImageError) as error:
                load_image(tmp_path / name)
            assert str(error.value).startswith(f"{tmp_path / name}: ") and reason in str(error.value)
            assert str(error.value).endswith(".") and len(str(error.value).split(". ")) >= 2


def test_broken_images_are_found_with_their_reasons(tmp_path: Path) -> None:
    files = broken_files(tmp_path)
    done: list[int] = []
    found = verify_images([tmp_path / name for name in files], done.append).broken
    expected = {i: reason for i, reason in enumerate(files.values()) if reason}
    assert found.keys() == expected.keys() and all(expected[i] in found[i] for i in found)
    assert done[-1] == len(files)
    assert verify_images([]).broken == {}


def test_too_many_pixels_is_an_error_and_many_are_loaded_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    Image.new("L", (100, 100)).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 6000)
    assert load_image(tmp_path / "a.png").size == (100, 100)
    assert not recwarn.list
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 4000)
    with pytest.raises(ImageError, match=naming("a.png", "pixels")):
        load_image(tmp_path / "a.png")


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are counted in /proc")
def test_no_file_stays_open(tmp_path: Path) -> None:
    files = broken_files(tmp_path)
    two_halves().save(tmp_path / "a.tif", compression="tiff_lzw")
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    images = [load_image(tmp_path / name) for name in ("a.tif", "whole.png", "whole.jpg")]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        verify_images([tmp_path / name for name in files])
    assert len(os.listdir("/proc/self/fd")) == before and images  # noqa: PTH208


def test_copies_have_one_hash_and_others_do_not(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 3_000_000)
    (tmp_path / "b").write_bytes(b"x" * 3_000_000)
    (tmp_path / "c").write_bytes(b"x" * 2_999_999 + b"y")
    first, copy, other = (content_hash(tmp_path / name) for name in "abc")
    assert first == copy != other
    assert len(first) == 32 and int(first, 16) >= 0
    with pytest.raises(ImageError, match="nowhere"):
        content_hash(tmp_path / "nowhere")


def written(image: Image.Image, kind: str, orientation: int = 1) -> bytes:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    file = io.BytesIO()
    image.save(file, kind, exif=exif)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_a_path_bytes_and_an_opened_image_give_the_same_pixels(tmp_path: Path, kind: str) -> None:
    contents = written(two_halves(), kind, orientation=6)
    (tmp_path / "a").write_bytes(contents)
    expected = np.asarray(load_image(tmp_path / "a"))
    assert expected.shape == (64, 32, 3) and image_size(tmp_path / "a") == (32, 64)
    loaded = Image.open(io.BytesIO(contents))
    loaded.load()
    sources: list[ImageSource] = [contents, bytearray(contents), memoryview(contents), loaded]
    sources += [Image.open(io.BytesIO(contents)), Image.open(tmp_path / "a"), str(tmp_path / "a")]
    for source in sources:
        assert np.array_equal(np.asarray(load_image(source)), expected)
        assert np.array_equal(ImageTransform(32)(source), ImageTransform(32)(tmp_path / "a"))


def test_bytes_are_decoded_at_reduced_size_as_files_are(tmp_path: Path) -> None:
    path = rotated(tmp_path / "a.jpg", two_halves((1203, 899)), 6)
    assert load_image(path.read_bytes(), at_least=224).size == load_image(path, at_least=224).size == (225, 301)


def test_an_image_given_is_never_altered() -> None:
    image = Image.open(io.BytesIO(written(two_halves(), "JPEG", orientation=6)))
    image.load()
    before = image.size, image.mode, image.tobytes(), dict(image.info), dict(image.getexif())
    turned = load_image(image, at_least=4)
    assert turned.size == (32, 64)
    assert (image.size, image.mode, image.tobytes(), dict(image.info), dict(image.getexif())) == before
    for plain in (two_halves(), np.asarray(two_halves()).copy()):
        untouched = np.array(plain)
        load_image(plain).paste("white", (0, 0, 64, 32))
        assert np.array_equal(np.asarray(plain), untouched)


def test_an_image_whose_owner_has_set_the_orientation_is_believed() -> None:
    image = Image.open(io.BytesIO(written(two_halves(), "JPEG", orientation=6)))
    image.getexif()[ORIENTATION] = 1
    assert load_image(image).size == (64, 32)
    plain = two_halves()
    plain.getexif()[ORIENTATION] = 6
    assert load_image(plain).size == (32, 64)


@pytest.mark.parametrize("mode", ["L", "1", "P", "RGBA", "LA", "CMYK", "YCbCr", "I;16", "F"])
def test_an_image_of_any_mode_is_rgb(mode: str) -> None:
    halves = two_halves(left="white", right="black")
    if mode == "I;16":
        image = Image.fromarray(np.asarray(halves.convert("L")).astype(np.uint16) * 257)
    else:
        image = halves.convert(mode)
    assert image.mode == mode
    assert np.array_equal(np.asarray(load_image(image)), np.asarray(halves))


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([[0, 128, 255]], np.uint8), [[0] * 3, [128] * 3, [255] * 3]),
        (np.array([[[0], [128], [255]]], np.uint8), [[0] * 3, [128] * 3, [255] * 3]),
        (np.array([[[1, 2, 3], [4, 5, 6]]], np.uint8), [[1, 2, 3], [4, 5, 6]]),
        (np.array([[[1, 2, 3], [4, 5, 6]]], np.uint8)[:, ::-1, ::-1], [[6, 5, 4], [3, 2, 1]]),
        (np.array([[[9, 9, 9, 0], [1, 2, 3, 255]]], np.uint8), [[255] * 3, [1, 2, 3]]),
        (np.array([[0, 32768, 65535]], np.uint16), [[0] * 3, [128] * 3, [255] * 3]),
        (np.array([[[0, 32768, 65535]]], ">u2"), [[0, 128, 255]]),
        (np.array([[[0.0, 0.5, 1.0]]], np.float32), [[0, 128, 255]]),
        (np.array([[[0.0, 0.25, 1.0, 1.0]]], np.float64), [[0, 64, 255]]),
    ],
)
def test_arrays_are_images(array: np.ndarray, expected: list[list[int]]) -> None:
    image = load_image(array)
    assert image.mode == "RGB" and np.asarray(image)[0].tolist() == expected
    assert ImageTransform(8)(array).shape == (8, 8, 3)


@pytest.mark.parametrize(
    ("source", "facts"),
    [
        (b"", ["zero bytes"]),
        (b"<html>not found</html>", ["image"]),
        (written(two_halves((200, 100)), "JPEG")[:300], ["truncated"]),
        (np.zeros((3, 8, 8), np.uint8), ["(3, 8, 8)", "uint8"]),
        (np.zeros((8, 0, 3), np.uint8), ["(8, 0, 3)", "uint8"]),
        (np.zeros((8, 8), np.int64), ["(8, 8)", "int64"]),
        (np.zeros((2, 8, 8, 3), np.uint8), ["(2, 8, 8, 3)", "uint8"]),
        (np.array([[-1.0, 2.5]], np.float32), ["float32", "-1", "2.5"]),
        (np.array([[0.0, np.nan]], np.float32), ["float32", "nan"]),
        (3, ["int"]),
        (None, ["NoneType"]),
    ],
)
def test_what_is_no_image_is_a_sentence_with_the_name_given(source: ImageSource, facts: list[str]) -> None:
    for name, begin in ((None, "the image"), ("image 3", "image 3:")):
        for load in (load_image, ImageTransform(8)):
            with pytest.raises(ImageError) as error:
                load(source, name=name)
            assert str(error.value).startswith(begin) and str(error.value).endswith(".")
            assert_names(str(error.value), *facts)


def test_a_name_given_stands_for_the_path_in_errors(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"^image 3: "):
        load_image(tmp_path / "nowhere.jpg", name="image 3")
    with pytest.raises(ImageError, match=r"^image 3: .*folder"):
        load_image(tmp_path, name="image 3")


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("ending", ["jpg", "png", "webp", "tif"])
def test_the_size_is_known_without_decoding(tmp_path: Path, ending: str, orientation: int) -> None:
    path = rotated(tmp_path / f"a.{ending}", two_halves(), orientation)
    assert image_size(path) == load_image(path).size
    for name, reason in broken_files(tmp_path).items():
        if reason not in ("", "truncated"):
            with pytest.raises(ImageError, match=reason):
                image_size(tmp_path / name)
