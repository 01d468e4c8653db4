"""A table of tags is read as its owner meant it, is told back in plain words, and fails with line and fix."""

import csv
import io
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import positively.tables.build
from positively.errors import ImageError, LabelError, PositivelyError, TableError, in_shell
from positively.images.decode import content_hash
from positively.labels import NEGATIVE, POSITIVE, UNKNOWN, LabelTable
from positively.tables.csv import CSV
from positively.tables.inspection import inspect_labels
from positively.tables.options import ReadOptions
from positively.tables.overlap import image_hashes, with_hashes
from positively.tables.reading import read_labels
from wording import assert_names, naming


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in "abcdef":
        (tmp_path / f"{name}.jpg").touch()
    return tmp_path


def read(
    folder: Path, content: str | bytes, name: str = "tags.csv", classes: Sequence[str] | None = None, **options: object
) -> tuple[LabelTable, str]:
    data = content.encode() if isinstance(content, str) else content
    (folder / name).write_bytes(data)
    table, notes = read_labels(folder / name, ReadOptions(verify=False, **options), classes)  # type: ignore[arg-type]
    return table, in_shell("\n".join(notes))


def states(table: LabelTable) -> dict[str, dict[str, int]]:
    """What is known of each image, by name."""
    dense = table.states().tolist()
    return {
        image: {name: state for name, state in zip(table.classes, row, strict=True) if state}
        for image, row in zip(table.images, dense, strict=True)
    }


CAT_DOG = {"a.jpg": {"cat": 1, "dog": 1}, "b.jpg": {"dog": 1}, "c.jpg": {}}


# ---------------------------------------------------------------------------------------------------------- shapes


@pytest.mark.parametrize(
    ("content", "shape"),
    [
        ("image,tags\na.jpg,cat;dog\nb.jpg,dog\nc.jpg,\n", "';'"),
        ("image,tags\na.jpg,cat|dog\nb.jpg,dog\nc.jpg,\n", "'|'"),
        ('image,tags\na.jpg,"cat, dog"\nb.jpg,dog\nc.jpg,\n', "','"),
        ("image;tags\na.jpg;cat, dog\nb.jpg;dog\nc.jpg;\n", "','"),
        ("sep=;\nimage;tags\na.jpg;cat, dog\nb.jpg;dog\nc.jpg;\n", "','"),
        ("image\ttags\r\na.jpg\tcat,dog\r\nb.jpg\tdog\r\nc.jpg\t\r\n", "','"),
        ("image|tags\na.jpg|cat;dog\nb.jpg|dog\nc.jpg|\n", "';'"),
        ('image,tags\na.jpg,"cat\ndog"\nb.jpg,dog\nc.jpg,\n', "line break"),
        ('image,tags\na.jpg,"[""cat"", ""dog""]"\nb.jpg,"[""dog""]"\nc.jpg,[]\n', "list"),
        ("image,tags\na.jpg,\"['cat', 'dog']\"\nb.jpg,['dog']\nc.jpg,\n", "list"),
        ("image,tags\na.jpg,['cat' 'dog']\nb.jpg,['dog']\nc.jpg,[]\n", "list"),
        ("image,cat,dog\na.jpg,1,1\nb.jpg,0,1\nc.jpg,0,0\n", "class"),
        ("image,cat,dog\na.jpg,x,X\nb.jpg,,x\nc.jpg,,\n", "class"),
        ("image,cat,dog\na.jpg,Yes,TRUE\nb.jpg,no,true\nc.jpg,False,no\n", "class"),
        ("image,cat,dog\na.jpg,1.0,1\nb.jpg,0.0,+1\nc.jpg,nan,\n", "class"),
        ("image,tag\na.jpg,cat\na.jpg,dog\nb.jpg,dog\nc.jpg,\n", "pair"),
        ("image,tag,state\na.jpg,cat,1\na.jpg,dog,1\nb.jpg,dog,1\nc.jpg,dog,0\n", "pair"),
        ("a.jpg,cat;dog\nb.jpg,dog\nc.jpg,\n", "header"),
        ("a.jpg,cat\na.jpg,dog\nb.jpg,dog\nc.jpg,\n", "header"),
        ("a.jpg;cat,dog\nb.jpg;dog\nc.jpg;\n", "header"),
    ],
)
def test_the_usual_shapes_are_read_alike(folder: Path, content: str, shape: str) -> None:
    table, notes = read(folder, content)
    assert states(table) == CAT_DOG
    assert table.classes == ("cat", "dog") and table.blank == UNKNOWN
    assert shape in notes.split("\n")[0]
    assert_names(notes, "3 images", "2 classes")


@pytest.mark.parametrize(
    "columns",
    [
        {"tags": pa.array([["cat", "dog"], ["dog"], None])},
        {"tags": pa.array(["cat;dog", "dog", None])},
        {"cat": pa.array([1, 0, None]), "dog": pa.array([1.0, 1.0, None])},
        {"cat": pa.array([True, False, None]), "dog": pa.array([True, True, False])},
    ],
)
def test_parquet_is_read_like_csv(folder: Path, columns: dict[str, pa.Array]) -> None:
    pq.write_table(pa.table({"image": ["a.jpg", "b.jpg", "c.jpg"], **columns}), folder / "tags.parquet")
    table, notes = read_labels(folder / "tags.parquet", ReadOptions(verify=False))
    assert states(table) == CAT_DOG
    assert_names(notes[0], "tags.parquet", "Parquet", "column")


def test_a_gap_in_a_parquet_column_of_numbers_is_no_tag(folder: Path) -> None:
    columns = {"image": ["a.jpg", "b.jpg", "c.jpg"], "label": pa.array([7.0, float("nan"), 8.0])}
    pq.write_table(pa.table(columns), folder / "tags.parquet")
    assert read_labels(folder / "tags.parquet", ReadOptions(verify=False))[0].classes == ("7.0", "8.0")


@pytest.mark.parametrize(
    ("codec", "named"),
    [("utf-8", None), ("utf-8-sig", None), ("utf-16", "UTF-16"), ("cp1252", "Windows-1252")],
)
def test_any_usual_encoding_is_read_and_said(folder: Path, codec: str, named: str | None) -> None:
    table, notes = read(folder, "image,tags\na.jpg,Bär;Café\n".encode(codec))
    assert table.classes == ("Bär", "Café")
    assert (named in notes) if named else ("UTF" not in notes and "Windows" not in notes)


@pytest.mark.parametrize("name", ["Image", "file_name", "File Name", "filepath", "image-id", "PHOTO"])
def test_the_image_column_is_known_by_its_usual_names(folder: Path, name: str) -> None:
    assert states(read(folder, f"labels,{name}\ncat;dog,a.jpg\n")[0]) == {"a.jpg": {"cat": 1, "dog": 1}}


def test_columns_are_also_known_by_their_contents(folder: Path) -> None:
    assert states(read(folder, ",asset,subjects\n0,a.jpg,cat\n1,b.jpg,dog\n")[0]) == {
        "a.jpg": {"cat": 1},
        "b.jpg": {"dog": 1},
    }
    # The file name is preferred over a number that stands under a better-known name.
    assert read(folder, "image_id,where,tags\n1,a.jpg,cat\n")[0].images == ["a.jpg"]


def test_a_class_may_be_called_like_a_column_that_has_a_meaning(folder: Path) -> None:
    table, _ = read(folder, "image,label,set,not,path\na.jpg,1,0,0,1\nb.jpg,0,1,1,0\n")
    assert table.classes == ("label", "not", "path", "set")


def test_columns_that_hold_no_tags_are_left_unread_and_named(folder: Path) -> None:
    table, notes = read(folder, "image,photographer,cat\na.jpg,Ann,1\nb.jpg,Bob,0\n")
    assert table.classes == ("cat",)
    assert "'photographer'" in notes
    assert "'absent'" in read(folder, "image,cat,dog,absent\na.jpg,1,0,cow\n")[1]
    assert "'title'" in read(folder, "image,tags,title\na.jpg,cat,Hello\n")[1]


def test_the_columns_can_be_named(folder: Path) -> None:
    content = "image,other,tags,mine,no,where\na.jpg,b.jpg,bird,cat,dog,val\n"
    table, _ = read(folder, content, image_column="other", tags_column="mine", absent_column="no", split_column="where")
    assert table.images == ["b.jpg"] and table.splits == ["val"]
    assert "cat" in table.classes and "bird" not in table.classes
    with pytest.raises(TableError, match=naming("tags_column='x'", "'image', 'other', 'tags'")):
        read(folder, content, tags_column="x")


def test_a_mark_that_is_rare_belongs_to_the_name_and_is_said(folder: Path) -> None:
    rows = "".join(f"{image}.jpg;cat, dog\n" for image in "abcde") + "f.jpg;either|or\n"
    table, notes = read(folder, "image;tags\n" + rows)
    assert table.classes == ("cat", "dog", "either|or")
    assert "'|'" in notes
    # Commas inside names do not win over semicolons between them.
    assert read(folder, 'image,tags\na.jpg,"York, UK;Rome, IT"\nb.jpg,"York, UK"\n')[0].classes == (
        "Rome, IT",
        "York, UK",
    )


def test_blanks_between_tags_have_to_be_asked_for_and_this_is_said(folder: Path) -> None:
    content = "image,tags\na.jpg,cat dog\nb.jpg,dog\n"
    table, notes = read(folder, content)
    assert table.classes == ("cat dog", "dog") and "--separator ' '" in notes
    assert read(folder, content, separator=" ")[0].classes == ("cat", "dog")
    assert read(folder, "image,tags\na.jpg,cat/dog\n", separator="/")[0].classes == ("cat", "dog")
    with pytest.raises(TableError, match="separator"):
        read(folder, content, separator="")


# ---------------------------------------------------------------------------------------------------------- states


def test_a_tag_that_is_not_there_is_unknown_unless_told(folder: Path) -> None:
    content = "image,tags\na.jpg,cat\nb.jpg,dog\n"
    table, notes = read(folder, content)
    assert not table.has_negatives and "unknown" in notes and "negative" not in notes
    table, notes = read(folder, content, blank="negative")
    assert table.is_complete and table.blank == NEGATIVE and table.offsets.nnz == 2
    assert "negative" in notes


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"zero": "negative"}, [[1, -1], [0, 1], [-1, 1]]),
        ({"blank": "negative"}, [[1, 0], [-1, 1], [-1, 1]]),
        ({"zero": "negative", "blank": "negative"}, [[1, -1], [-1, 1], [-1, 1]]),
    ],
)
def test_zero_and_blank_mean_what_the_options_say(
    folder: Path, options: dict[str, str], expected: list[list[int]]
) -> None:
    content = "image,cat,dog\na.jpg,1,0\nb.jpg,,1\nc.jpg,-1,1\n"
    table, _ = read(folder, content, **options)
    assert table.states().tolist() == expected
    assert np.all(table.offsets.data != 0)
    with pytest.raises(TableError, match=naming("-1", "zero='negative'", "blank='negative'")):
        read(folder, content)


def test_zero_is_unknown_in_class_columns_and_the_way_out_is_said(folder: Path) -> None:
    table, notes = read(folder, "image,cat,dog\na.jpg,1,0\nb.jpg,-1,1\n")
    assert table.states().tolist() == [[1, 0], [-1, 1]]
    assert_names(notes, "--zero negative", "absences: 1")


def test_pairs_may_carry_a_state(folder: Path) -> None:
    content = (
        'ImageID,LabelName,Confidence\na.jpg,"salt, sea",1\na.jpg,dog,0\nb.jpg,dog,-1\nb.jpg,bird,1\nc.jpg,dog,1\n'
    )
    table, _ = read(folder, content)
    assert states(table) == {"a.jpg": {"salt, sea": 1}, "b.jpg": {"bird": 1, "dog": -1}, "c.jpg": {"dog": 1}}
    assert states(read(folder, content, zero="negative")[0])["a.jpg"] == {"dog": -1, "salt, sea": 1}
    negative, _ = read(folder, content, blank="negative")
    assert negative.states()[0, negative.classes.index("dog")] == UNKNOWN
    with pytest.raises(TableError, match=naming("tags.csv line 3", "'0.87'", "'state'")):
        read(folder, "image,tag,state\na.jpg,cat,1\na.jpg,dog,0.87\n")


def test_a_status_that_is_no_state_is_not_read(folder: Path) -> None:
    table, notes = read(folder, "image,Status,tags\na.jpg,ok,cat\nb.jpg,done,dog\n")
    assert states(table) == {"a.jpg": {"cat": 1}, "b.jpg": {"dog": 1}}
    assert_names(notes, "'Status'")


def test_of_two_columns_of_tags_an_empty_one_is_not_read(folder: Path) -> None:
    table, _ = read(folder, "SourceFile,XMP:Subject,IPTC:Keywords\na.jpg,cat,\nb.jpg,dog,\n")
    assert states(table) == {"a.jpg": {"cat": 1}, "b.jpg": {"dog": 1}}


def test_verified_absences_have_a_column(folder: Path) -> None:
    table, notes = read(folder, "image,tags,absent\na.jpg,cat,dog;bird\nb.jpg,bird;dog,\n")
    assert states(table) == {"a.jpg": {"cat": 1, "dog": -1, "bird": -1}, "b.jpg": {"bird": 1, "dog": 1}}
    assert "absences: 2" in notes
    complete, _ = read(folder, "image,tags,absent\na.jpg,cat,dog\nb.jpg,dog,\n", blank="negative")
    assert complete.offsets.nnz == 2 and complete.counts(NEGATIVE).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("content", "options", "facts"),
    [
        ("image,tags,absent\nb.jpg,cat,\na.jpg,cat;dog,Dog\n", {}, ("line 3", "'dog'", "'a.jpg'")),
        ("image,cat\na.jpg,1\nb.jpg,1\na.jpg,-1\n", {}, ("2 and 4", "'cat'", "'a.jpg'")),
        ("image,cat\na.jpg,1\nb.jpg,1\n./a.jpg,0\n", {"zero": "negative", "blank": "negative"}, ("2 and 4", "'cat'")),
        ("image,tag,state\na.jpg,cat,-1\na.jpg,cat,1\n", {"blank": "negative"}, ("2 and 3", "'cat'")),
    ],
)
def test_a_contradiction_is_an_error_with_its_lines(
    folder: Path, content: str, options: dict[str, str], facts: tuple[str, ...]
) -> None:
    with pytest.raises(TableError, match=naming("tags.csv", *facts)):
        read(folder, content, **options)


def test_repeated_images_are_united_and_said(folder: Path) -> None:
    table, notes = read(folder, "image,tags\na.jpg,cat;dog\nb.jpg,dog\n./a.jpg,bird\n")
    assert states(table)["a.jpg"] == {"cat": 1, "dog": 1, "bird": 1} and len(table) == 2
    assert_names(notes, "'a.jpg'", "2 and 4")
    assert table.lines is not None and table.lines.tolist() == [2, 3]
    united, _ = read(folder, "image,cat,dog\na.jpg,1,\na.jpg,,1\n", blank="negative")
    assert united.states().tolist() == [[1, 1]]
    assert "'a.jpg'" not in read(folder, "image,tag\na.jpg,cat\na.jpg,dog\n")[1]


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        ("image,tag", ["table, laid", "cup", "cup", "glass", "table, laid", "lamp; old"]),
        ("Datei,Schlagwort", ["Tisch, gedeckt", "a|b", "Tisch, gedeckt", "a|b", "Lampe", "Tasse"]),
        ("image,tags", ["table, laid", "cup", "cup", "glass", "table, laid", "lamp"]),
    ],
)
def test_a_pair_table_keeps_tags_with_marks(folder: Path, header: str, cells: list[str]) -> None:
    lines = [f'{image}.jpg,"{cell}"\n' for image, cell in zip("aabbcc", cells, strict=True)]
    table, notes = read(folder, header + "\n" + "".join(lines))
    assert set(table.classes) == set(cells) and len(table) == 3
    assert "pair" in notes


@pytest.mark.parametrize("header", ["image,tag", "image,tags"])
def test_lists_on_repeated_lines_are_no_pairs(folder: Path, header: str) -> None:
    cells = ["cat, dog", "dog", "cat", "fox, cat", "fox", "dog, fox"]
    lines = [f'{image}.jpg,"{cell}"\n' for image, cell in zip("aabbcc", cells, strict=True)]
    assert read(folder, header + "\n" + "".join(lines))[0].classes == ("cat", "dog", "fox")


def test_a_comma_inside_a_tag_is_noticed(folder: Path) -> None:
    cells = ["Tisch, gedeckt, Fest", "Fest, Tisch, gedeckt", "Tisch, gedeckt", "Fest, Wald", "Wald"]
    lines = [f'{image}.jpg;"{cell}"\n' for image, cell in zip("abcde", cells, strict=True)]
    _, notes = read(folder, "image;tags\n" + "".join(lines))
    assert "'Tisch' and 'gedeckt' (3 images)" in notes
    assert "'Tisch' and" not in read(folder, "image;tags\n" + "".join(lines[1:]))[1]
    (folder / "tags.csv").write_text("image;tags\n" + "".join(lines))
    (problem,) = [
        one
        for one in inspect_labels(folder / "tags.csv", ReadOptions(verify=False)).problems
        if "'Tisch' and" in one.sentence
    ]
    assert not problem.stops_training


def test_names_without_ending_or_with_the_folder_are_found_and_noted(folder: Path) -> None:
    folder = folder.rename(folder.with_name("photos"))
    content = "image,tags\na,cat\nphotos/b.jpg,dog\nphotos/c,dog\nd.jpg,cat\n"
    table, notes = read(folder, content, images=str(folder))
    assert list(table.images) == ["a.jpg", "b.jpg", "c.jpg", "d.jpg"]
    assert "'a', read as 'a.jpg'" in notes and "'photos/b.jpg', read as 'b.jpg'" in notes


# ----------------------------------------------------------------------------------------------------------- names


def test_spellings_of_one_name_are_united_under_the_most_frequent(folder: Path) -> None:
    table, notes = read(
        folder, "image,tags\na.jpg,Dog;hot  dog\nb.jpg, dog ;Cafe\u0301\nc.jpg,dog;Hot dog\nd.jpg,DOG;hot dog;Café\n"
    )
    assert table.classes == ("Café", "dog", "hot dog")
    assert_names(notes, "'Dog', 'DOG' → 'dog'", "'Hot dog' → 'hot dog'")
    assert table.counts(POSITIVE).tolist() == [2, 4, 3]


def test_aliases_are_followed_to_their_end(folder: Path) -> None:
    (folder / "aliases.csv").write_text("alias,name\nPuppy,doggy\ndoggy,Dog\nkitty,cat\n")
    table, notes = read(folder, "image,tags\na.jpg,puppy;cat\nb.jpg,dog;Kitty\n", aliases=str(folder / "aliases.csv"))
    assert states(table) == {"a.jpg": {"Dog": 1, "cat": 1}, "b.jpg": {"Dog": 1, "cat": 1}}
    assert_names(notes, "'puppy' → 'Dog'", "'Kitty' → 'cat'")


@pytest.mark.parametrize(
    ("aliases", "facts"),
    [
        ("a,b\nb,c\nc,a\n", ("line 1",)),
        ("a,b\nc\n", ("line 2", "two")),
        ("a,b\na,\n", ("line 2", "two")),
        ("a,b\na,c\n", ("line 2", "'a'", "'c'", "'b'", "line 1")),
    ],
)
def test_bad_aliases_are_errors_with_the_line(folder: Path, aliases: str, facts: tuple[str, ...]) -> None:
    (folder / "aliases.csv").write_text(aliases)
    with pytest.raises(TableError, match=naming("aliases.csv", *facts)):
        read(folder, "image,tags\na.jpg,cat\n", aliases=str(folder / "aliases.csv"))


def test_given_classes_keep_their_order_and_spelling(folder: Path) -> None:
    (folder / "classes.txt").write_text("zebra\n\nDog\ncat\n", encoding="utf-8-sig")
    content = "image,tags\na.jpg,cat;dog\n"
    table, notes = read_given(folder, content, "classes.txt")
    assert table.classes == ("zebra", "Dog", "cat") and table.states().tolist() == [[0, 1, 1]]
    assert "'zebra'" in notes
    # Classes given by code win over the file.
    assert read_given(folder, content, "classes.txt", ["dog", "cat"])[0].classes == ("dog", "cat")


def read_given(folder: Path, content: str, file: str, classes: Sequence[str] | None = None) -> tuple[LabelTable, str]:
    (folder / "tags.csv").write_text(content)
    table, notes = read_labels(folder / "tags.csv", ReadOptions(verify=False, classes=str(folder / file)), classes)
    return table, in_shell("\n".join(notes))


def test_a_class_given_twice_is_an_error(folder: Path) -> None:
    (folder / "classes.txt").write_text("cat\ndog\ncat\n")
    with pytest.raises(TableError, match=naming("classes.txt line 3", "'cat'", "line 1")):
        read_given(folder, "image,tags\na.jpg,cat\n", "classes.txt")
    with pytest.raises(TableError, match="'cat'"):
        read(folder, "image,tags\na.jpg,cat\n", classes=["cat", "cat"])


def test_a_tag_beyond_the_given_classes_stops_with_line_and_suggestion(folder: Path) -> None:
    content = "image,tags\na.jpg,cat\nb.jpg,elefant;bird\n"
    with pytest.raises(TableError, match=naming("tags.csv line 3", "'elefant'", "'Elephant'?", "1 more")):
        read(folder, content, classes=["cat", "Elephant"])
    table, notes = read(folder, content, classes=["cat", "Elephant"], unknown_tags="ignore")
    assert states(table) == {"a.jpg": {"cat": 1}, "b.jpg": {}}
    assert_names(notes, "'elefant'", "'bird'")
    with pytest.raises(TableError, match=naming("tags.csv line 1", "'bird'", "unknown_tags='ignore'")):
        read(folder, "image,cat,bird\na.jpg,1,0\n", classes=["cat"])


def test_rare_tags_are_left_out_on_request(folder: Path) -> None:
    content = "image,tags,absent\na.jpg,cat;dog,fish\nb.jpg,cat;cat,\nc.jpg,bird;bird,cow\n"
    table, notes = read(folder, content, min_count=2)
    assert table.classes == ("cat",) and len(table) == 3
    assert_names(notes, "--min-count", "'bird' 1", "'dog' 1", "'cow'", "'fish'")
    with pytest.raises(TableError, match=r"tags\.csv"):
        read(folder, content, min_count=3)
    with pytest.raises(TableError, match=r"tags\.csv"):
        read(folder, content, classes=["zebra"], unknown_tags="ignore")


def test_splits_are_normalised_and_counted(folder: Path) -> None:
    table, notes = read(
        folder, "image,tags,Subset\na.jpg,cat,Training\nb.jpg,cat,valid\nc.jpg,dog,test\nd.jpg,dog,train\n"
    )
    assert table.splits == ["train", "val", "test", "train"]
    assert_names(notes, "train 2", "val 1", "test 1")
    with pytest.raises(TableError, match=naming("line 3", "'a.jpg'", "'test'", "'train'", "line 2")):
        read(folder, "image,tags,split\na.jpg,cat,train\na.jpg,dog,test\n")
    with pytest.raises(TableError, match=naming("line 2", "'maybe'", "train", "val", "test")):
        read(folder, "image,tags,part\na.jpg,cat,maybe\n", split_column="part")


# ---------------------------------------------------------------------------------------------------------- images


def test_images_are_found_in_folders_by_absolute_path_and_with_backslashes(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "x.jpg").touch()
    absolute = folder / "b.jpg"
    table, _ = read(folder, f"image,tags\nsub\\x.jpg,cat\n./a.jpg,dog\n{absolute},dog\n.\\c.jpg,dog\n")
    assert table.images == ["sub/x.jpg", "a.jpg", str(absolute), "c.jpg"]
    assert all(path.is_file() for path in table.paths)
    assert read(folder, "image,tags\nx.jpg,cat\n", images=str(folder / "sub"))[0].root == folder / "sub"
    with pytest.raises(TableError, match="images='nowhere'"):
        read(folder, "image,tags\na.jpg,cat\n", images="nowhere")


def test_a_missing_image_stops_with_line_count_and_fix(folder: Path) -> None:
    content = 'image,tags\na.jpg,"cat\ndog"\nx.jpg,cat\ny.jpg,dog\nb.jpeg,bird\n'
    facts = ("tags.csv line 4", "'x.jpg'", folder, "2 more", "y.jpg", "b.jpeg", "images='DIR'", "skip_missing_images")
    with pytest.raises(ImageError, match=naming(*facts)):
        read(folder, content)
    table, notes = read(folder, content, skip_missing_images=True)
    assert table.images == ["a.jpg"]
    assert_names(notes, "--skip-missing-images", "3", "'bird'")
    with pytest.raises(ImageError, match=naming("'b.jpg'", "images='DIR'")):
        read(folder, "image,tags\nb.PNG,cat\n", skip_missing_images=True)
    with pytest.raises(ImageError, match=r"'a\.jpg'"):
        read(folder, "image,tags\nA.jpg,cat\n")


def test_broken_images_stop_with_lines_and_reasons_or_are_left_out(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "a.jpg")
    (tmp_path / "b.jpg").touch()
    (tmp_path / "c.jpg").write_text("hello")
    (tmp_path / "tags.csv").write_text("image,tags\na.jpg,cat\nb.jpg,cat;dog\nc.jpg,cat\n")
    with pytest.raises(
        ImageError, match=naming("2 of 3", "'b.jpg'", "tags.csv line 3", "zero bytes", "skip_broken=True")
    ):
        read_labels(tmp_path / "tags.csv")
    table, notes = read_labels(tmp_path / "tags.csv", ReadOptions(skip_broken=True))
    assert table.images == ["a.jpg"] and table.classes == ("cat",)
    assert_names(in_shell("\n".join(notes)), "--skip-broken", "2", "'b.jpg'", "tags.csv line 3", "zero bytes", "'dog'")


# ---------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        (b"", ("empty",)),
        (b" \n\n", ("empty",)),
        (b"\xef\xbb\xbf\n", ("empty",)),
        (b"image,tags\n", ("header",)),
        (b"PK\x03\x04rest", ("CSV",)),
        (b"\xd0\xcf\x11\xe0rest", ("CSV",)),
        (b"\x1f\x8b\x08", ("npack",)),
        (b"image,tags\na.jpg,c\0t\n", ("NUL",)),
        (b"image,tags\na.jpg,\x81\n", ("UTF-8", "Windows-1252")),
        (b"PAR1nonsense", ("Parquet",)),
        (b'image,tags\na.jpg,"x\ny"\nb.jpg,cat,dog\n', ("line 4", "2", "3")),
        (b"a.jpg,cat\nb.jpg\n", ("line 2", "2", "1")),
        (b'image,tags\na.jpg,cat\nb.jpg,"dog\nc.jpg,cat\n', ("line 3", "quot")),
        (b"image,tags\na.jpg,cat\n,dog\n", ("line 3", "'image'")),
        (b"image,cat,dog\na.jpg,1,0\nb.jpg,1,maybe\nc.jpg,0,1\n", ("line 3", "'maybe'", "'dog'")),
        (b"image,tags\na.jpg,[cat]\nb.jpg,['dog]\n", ("line 3", "['dog]", "list")),
        (b"width,height\n640,480\n", ("'width', 'height'", "image,tags")),
        (b"image\na.jpg\n", ("'image'",)),
        (b"image,title,place\na.jpg,Hello,Rome\n", ("'title', 'place'",)),
        (b"a.jpg,cat,dog\nb.jpg,cat,bird\n", ("3 columns", "header")),
        (b"image,tags\na.jpg,\nb.jpg,\n", ("learn",)),
    ],
)
def test_a_table_that_cannot_be_read_says_where_and_why(folder: Path, content: bytes, facts: tuple[str, ...]) -> None:
    with pytest.raises(TableError, match=naming("tags.csv", *facts)) as error:
        read(folder, content)
    assert str(error.value).endswith(".")


def test_a_path_that_is_no_table_says_so(folder: Path) -> None:
    with pytest.raises(TableError, match=r"nowhere\.csv"):
        read_labels(folder / "nowhere.csv")
    with pytest.raises(TableError, match=r"nowhere\.parquet"):
        read_labels(folder / "nowhere.parquet")
    with pytest.raises(TableError, match="folder"):
        CSV().read(folder)
    with pytest.raises(TableError, match=r"classes\.txt"):
        read_given(folder, "image,tags\na.jpg,cat\n", "classes.txt")


def test_lines_stay_exact_below_blank_lines_and_quoted_breaks(folder: Path) -> None:
    table, _ = read(folder, '\nimage,tags\n\na.jpg,"cat\n\ndog"\r\n\nb.jpg,dog\n,\nc.jpg,cat\n')
    assert table.lines is not None and table.lines.tolist() == [4, 8, 10]
    assert table.place(1) == "tags.csv line 8" and table.source == "tags.csv"


def test_a_large_table_is_put_together_in_blocks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = "image,zebra,cat,dog\na.jpg,1,0,1\nb.jpg,0,1,0\nc.jpg,1,1,0\nd.jpg,0,0,0\ne.jpg,0,0,1\n"
    whole = read(folder, content, zero="negative")[0]
    monkeypatch.setattr(positively.tables.build, "_BLOCK", 2)
    assert read(folder, content, zero="negative")[0].states().tolist() == whole.states().tolist()
    assert whole.states().tolist() == [[-1, 1, 1], [1, -1, -1], [1, -1, 1], [-1, -1, -1], [-1, 1, -1]]


def test_a_cell_may_be_longer_than_the_limit_of_the_csv_module(folder: Path) -> None:
    before = csv.field_size_limit()
    tags = [f"tag number {i:05d}" for i in range(18_000)]
    cell = ";".join(tags)
    assert len(cell) > 300_000 > before
    table, notes = read(folder, f"image,tags\na.jpg,{cell}\nb.jpg,cat\n")
    assert len(table.classes) == 18_001 and table.counts(POSITIVE).sum() == 18_001
    assert "';'" in notes
    assert csv.field_size_limit() == before, "other code of the process keeps its limit"
    with pytest.raises(TableError):
        read(folder, 'image,tags\na.jpg,"cat\n')
    assert csv.field_size_limit() == before


@pytest.mark.parametrize("gap", ["nan", "NaN", "None", "<NA>", " nan "])
def test_an_empty_cell_as_pandas_writes_it_is_no_tag_and_is_said(folder: Path, gap: str) -> None:
    table, notes = read(folder, f"image,tags\na.jpg,cat;dog\nb.jpg,dog\nc.jpg,{gap}\n")
    assert states(table) == CAT_DOG
    assert f"'{gap.strip()}' 1" in notes
    listed, notes = read(folder, f"image,tags\na.jpg,\"['cat', 'dog']\"\nb.jpg,['dog']\nc.jpg,{gap}\n")
    assert states(listed) == CAT_DOG and "lists" in notes
    columns, _ = read(folder, f"image,cat,dog\na.jpg,1,1\nb.jpg,{gap},1\nc.jpg,{gap},{gap}\n")
    assert states(columns) == CAT_DOG
    # Only a whole cell is a gap: as one of several tags, it is what somebody wrote.
    assert set(read(folder, f"image,tags\na.jpg,cat;{gap}\n")[0].classes) == {"cat", gap.strip()}


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"min_count": -1}, ("min_count", "-1")),
        ({"min_count": "2"}, ("min_count", "'2'")),
        ({"blank": "maybe"}, ("blank", "'unknown'", "'negative'", "'maybe'")),
        ({"verify": "no"}, ("verify", "True", "False")),
        ({"tags_column": "x"}, ("tags_column='x'",)),
        ({"separator": ""}, ("separator",)),
        ({"images": "nowhere"}, ("images='nowhere'",)),
        ({"aliases": "nowhere.csv"}, ("nowhere.csv",)),
        ({"classes": "nowhere.txt"}, ("nowhere.txt",)),
        ({"min_count": 3}, ("tags.csv", "learn")),
    ],
)
def test_options_are_checked_before_any_image_is_decoded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, object], facts: tuple[str, ...]
) -> None:
    def decoded(*_: object) -> None:
        pytest.fail("an image was decoded before the options were checked")

    monkeypatch.setattr(positively.tables.build, "verify_images", decoded)
    (folder / "tags.csv").write_text("image,tags\na.jpg,cat\nb.jpg,cat;dog\n")
    with pytest.raises(PositivelyError, match=naming(*facts)):
        read_labels(folder / "tags.csv", ReadOptions(**options))  # type: ignore[arg-type]


def test_paths_may_be_given_as_paths(folder: Path) -> None:
    (folder / "classes.txt").write_text("cat\n")
    table, _ = read(folder, "image,tags\na.jpg,cat\n", images=folder, classes=None)
    assert table.root == folder
    assert ReadOptions(classes=folder / "classes.txt").classes == str(folder / "classes.txt")  # type: ignore[arg-type]


def test_the_content_of_images_is_hashed_as_they_are_verified_and_travels_with_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i, name in enumerate("abcd"):
        Image.new("RGB", (4, 4), (i // 2, 0, 0)).save(tmp_path / f"{name}.png")
    (tmp_path / "c.png").write_bytes(b"")
    (tmp_path / "tags.csv").write_text("image,tags\na.png,cat\nb.png,cat;dog\nc.png,cat\nd.png,dog\n")
    assert read_labels(tmp_path / "tags.csv", ReadOptions(verify=False))[0].hashes is None
    opened: list[str] = []
    real = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: opened.append(path.name) or real(path))
    table, _ = read_labels(tmp_path / "tags.csv", ReadOptions(skip_broken=True))
    assert sorted(name for name in opened if name.endswith("png")) == ["a.png", "b.png", "c.png", "d.png"]
    expected = [content_hash(tmp_path / f"{name}.png") for name in "abd"]
    assert table.hashes == expected and expected[0] == expected[1] != expected[2]
    assert table.select([2, 0]).hashes == [expected[2], expected[0]]
    assert table.with_known_ratio(0.5).with_classes(["dog"]).positives_only().hashes == expected
    # Nobody reads the files again.
    (tmp_path / "d.png").unlink()
    assert image_hashes(table) == expected and with_hashes(table) is table
    plain = replace(table.select([0, 1]), hashes=None)
    assert with_hashes(plain).digest() == table.select([0, 1]).digest()
    assert with_hashes(plain).hashes == expected[:2]
    with pytest.raises(LabelError, match=naming("3", "2", "hashes")):
        replace(table, hashes=expected[:2])


# ------------------------------------------------------------------------------------------------------ properties

LETTERS = st.text(st.sampled_from("abcdefgäöü éñ-'\"!"), min_size=1, max_size=8)
# Names that survive cleaning and differ in more than case, and that are neither states nor lists.
NAMES = LETTERS.map(lambda name: " ".join(f"k{name}".split())).filter(lambda name: name.isprintable())
CLASSES = st.lists(NAMES, min_size=1, max_size=6, unique=True)


@st.composite
def label_frequency(draw: st.DrawFn) -> tuple[list[str], np.ndarray]:
    classes = draw(CLASSES)
    rows = draw(
        st.lists(
            st.lists(st.sampled_from((1, 1, 0, -1)), min_size=len(classes), max_size=len(classes)),
            min_size=1,
            max_size=6,
        )
    )
    matrix = np.array(rows, dtype=np.int8)
    matrix[0, 0] = 1
    return classes, matrix


def as_tags(classes: list[str], matrix: np.ndarray, separator: str) -> list[list[str]]:
    listed = [[separator.join(classes[i] for i in np.flatnonzero(row == state)) for state in (1, -1)] for row in matrix]
    return [["image", "tags", "absent"], *([f"{i}.jpg", *cells] for i, cells in enumerate(listed))]


def as_columns(classes: list[str], matrix: np.ndarray, unknown: str) -> list[list[str]]:
    text = {1: "1", -1: "-1", 0: unknown}
    return [["image", *classes], *([f"{i}.jpg", *(text[int(s)] for s in row)] for i, row in enumerate(matrix))]


def as_pairs(classes: list[str], matrix: np.ndarray) -> list[list[str]]:
    rows = [["image", "tag", "state"]]
    for i, row in enumerate(matrix):
        rows += [[f"{i}.jpg", name, str(state)] for name, state in zip(classes, row, strict=True)]
    return rows


@settings(max_examples=120, deadline=None)
@given(
    labels=label_frequency(),
    shape=st.sampled_from(["tags", "columns", "pairs"]),
    separator=st.sampled_from([";", "|", ",", "\n"]),
    unknown=st.sampled_from(["", "0"]),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    codec=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"]),
    line_end=st.sampled_from(["\n", "\r\n"]),
)
def test_a_table_reads_back_as_it_was_written_in_any_shape(
    labels: tuple[list[str], np.ndarray],
    shape: str,
    separator: str,
    unknown: str,
    delimiter: str,
    quoting: int,
    codec: str,
    line_end: str,
) -> None:
    classes, matrix = labels
    rows = {
        "tags": lambda: as_tags(classes, matrix, separator),
        "columns": lambda: as_columns(classes, matrix, unknown),
        "pairs": lambda: as_pairs(classes, matrix),
    }[shape]()
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter, quoting=quoting, lineterminator=line_end).writerows(rows)  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for i in range(len(matrix)):
            (folder / f"{i}.jpg").touch()
        table, _ = read(folder, buffer.getvalue().encode(codec), classes=classes)
    assert table.images == [f"{i}.jpg" for i in range(len(matrix))]
    assert table.states().tolist() == matrix.tolist()


@settings(max_examples=300, deadline=None)
@given(content=st.one_of(st.binary(max_size=60), st.text("image,tgs;\n\"'[]|\t01-aä.jp", max_size=60).map(str.encode)))
def test_no_contents_whatever_end_in_anything_but_a_sentence(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        try:
            read(Path(name), b"image,tags\na.jpg," + content)
        except PositivelyError as error:
            assert str(error)
        try:
            read(Path(name), content)
        except PositivelyError as error:
            assert str(error)


def test_a_typo_in_the_split_column_is_an_error_with_its_line(tmp_path):
    for name in "abc":
        Image.new("RGB", (8, 8)).save(tmp_path / f"{name}.png")
    (tmp_path / "tags.csv").write_text("image,tags,split\na.png,dog,train\nb.png,dog,tset\nc.png,cat,train\n")
    with pytest.raises(TableError, match=naming("line 3", "'tset'")):
        read_labels(tmp_path / "tags.csv")
