"""A table that is written again holds what it held, with what was found since, in the shape it came in."""

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from positively.data.options import ReadOptions
from positively.data.reading import read_labels
from positively.data.writing import check_tag, write_table
from positively.errors import TableError

CHANGES = {("a.jpg", "dog"): 1, ("b.jpg", "cat"): -1, ("c.jpg", "cat"): -1, ("c.jpg", "zebra"): 1, ("d.jpg", "dog"): 0}
EXPECTED = {  # image → positive, negative
    "a.jpg": ({"cat", "dog"}, set()),
    "b.jpg": ({"dog"}, {"cat"}),
    "c.jpg": ({"zebra"}, {"cat"}),  # the cat of c.jpg was wrong
    "d.jpg": (set(), set()),
    "e.jpg": ({"cat"}, set()),
}

SHAPES = {
    "tags": 'image,tags,note\na.jpg,cat,"x, y"\nb.jpg,dog,\nc.jpg,cat,z\nd.jpg,dog,\ne.jpg,cat,\n',
    "commas": 'image;tags\na.jpg;"cat"\nb.jpg;dog, bird\nc.jpg;cat\nd.jpg;dog\ne.jpg;cat\n',
    "lists": 'image,labels\na.jpg,"[""cat""]"\nb.jpg,[dog]\nc.jpg,[cat]\nd.jpg,[dog]\ne.jpg,[cat]\n',
    "classes": "image,cat,dog,by\na.jpg,1,,me\nb.jpg,,1,\nc.jpg,1,0,you\nd.jpg,0,1,\ne.jpg,1,,\n",
    "pairs": "image,tag\na.jpg,cat\nb.jpg,dog\nc.jpg,cat\nd.jpg,dog\ne.jpg,cat\ne.jpg,cat\n",
    "states": "image,tag,state\na.jpg,cat,1\nb.jpg,dog,1\nc.jpg,cat,1\nd.jpg,dog,1\ne.jpg,cat,1\n",
    "bare": "a.jpg,cat\nb.jpg,dog\nc.jpg,cat\nd.jpg,dog\ne.jpg,cat\n",
    "tabs": "\ufeffimage\ttags\tabsent\n./a.jpg\tcat\t\nb.jpg\tdog\t\nc.jpg\tcat\t\nd.jpg\tdog\t\ne.jpg\tcat\t\n",
}


@pytest.fixture
def photos(tmp_path):
    for name in EXPECTED:
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    return tmp_path


def labels(path, **options):
    table, _ = read_labels(path, ReadOptions(**options))
    states = table.states()
    return {
        image: tuple({table.classes[c] for c in np.flatnonzero(states[row] == state)} for state in (1, -1))
        for row, image in enumerate(table.images)
    }


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_read_back_is_the_table_with_the_changes(photos, shape):
    source, out = photos / "tags.csv", photos / "new" / "out.csv"
    source.write_text(SHAPES[shape], encoding="utf-8")
    table, _ = read_labels(source, ReadOptions())
    write_table(out, table, CHANGES, source=source, options=ReadOptions())
    assert source.read_text(encoding="utf-8") == SHAPES[shape]
    expected = EXPECTED | ({"b.jpg": ({"dog", "bird"}, {"cat"})} if shape == "commas" else {})
    assert labels(out, images=str(photos)) == expected


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "bare"])
def test_tags_in_a_column_of_their_own_change_nothing_that_was_there(photos, shape):
    source, out = photos / "tags.csv", photos / "out.tsv"
    source.write_text(SHAPES[shape], encoding="utf-8")
    table, _ = read_labels(source, ReadOptions())
    additions = {pair: state for pair, state in CHANGES.items() if state == 1}
    write_table(out, table, additions, source=source, options=ReadOptions(), column="missing")
    assert labels(out) == labels(source)
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    image = next(name for name in rows[0] if name.strip("\ufeff") == "image")
    found = {(row[image].removeprefix("./"), row["missing"].strip('[]"')) for row in rows if row["missing"]}
    assert found == {("a.jpg", "dog"), ("c.jpg", "zebra")}


def test_cells_and_columns_nobody_touched_stay_to_the_letter(photos):
    source, out = photos / "tags.csv", photos / "out.csv"
    source.write_text(SHAPES["tags"].replace("e.jpg,cat", "e.jpg, cat "), encoding="utf-8")
    table, _ = read_labels(source, ReadOptions())
    write_table(out, table, {("a.jpg", "dog"): 1}, source=source, options=ReadOptions())
    assert out.read_text() == source.read_text().replace("a.jpg,cat", "a.jpg,cat;dog")


def test_parquet_keeps_its_types(photos):
    source, out = photos / "tags.parquet", photos / "out.parquet"
    columns = {"image": list(EXPECTED), "tags": [["cat"], ["dog"], ["cat"], ["dog"], ["cat"]], "year": [1, 2, 3, 4, 5]}
    pq.write_table(pa.table(columns), source)
    table, _ = read_labels(source, ReadOptions())
    write_table(out, table, CHANGES, source=source, options=ReadOptions())
    written = pq.read_table(out)
    assert written.schema.field("tags").type == pa.list_(pa.string())
    assert written["year"].to_pylist() == [1, 2, 3, 4, 5]
    assert labels(out) == EXPECTED


def test_a_parquet_column_a_class_keeps_numbers(photos):
    source, out = photos / "tags.parquet", photos / "out.parquet"
    pq.write_table(pa.table({"image": list(EXPECTED), "cat": [1, 0, 1, 0, 1], "dog": [0, 1, 0, 1, 0]}), source)
    table, _ = read_labels(source, ReadOptions())
    write_table(out, table, CHANGES, source=source, options=ReadOptions())
    assert pq.read_table(out)["cat"].to_pylist() == [1, -1, -1, None, 1]
    assert labels(out) == EXPECTED


def test_what_has_no_table_is_written_as_one(photos):
    source, out = photos / "tags.csv", photos / "out.csv"
    source.write_text(SHAPES["tags"])
    table, _ = read_labels(source, ReadOptions())
    write_table(out, table, CHANGES, source=None, options=ReadOptions())
    assert labels(out) == EXPECTED


def test_aliases_are_followed(photos):
    source, out, aliases = photos / "tags.csv", photos / "out.csv", photos / "aliases.csv"
    source.write_text("image,tags\na.jpg,kitty\nb.jpg,cat\n")
    aliases.write_text("alias,name\nkitty,cat\n")
    options = ReadOptions(aliases=str(aliases))
    table, _ = read_labels(source, options)
    write_table(out, table, {("a.jpg", "cat"): -1}, source=source, options=options)
    assert labels(out)["a.jpg"] == (set(), {"cat"})


def test_the_table_itself_and_unknown_formats_are_refused(photos):
    source = photos / "tags.csv"
    source.write_text(SHAPES["tags"])
    table, _ = read_labels(source, ReadOptions())
    with pytest.raises(TableError, match="the table itself"):
        write_table(source, table, CHANGES, source=source, options=ReadOptions())
    with pytest.raises(TableError, match="the ending says the format"):
        write_table(photos / "out.xlsx", table, CHANGES, source=source, options=ReadOptions())
    with pytest.raises(TableError, match="holds ';'"):
        write_table(photos / "o.csv", table, {("a.jpg", "a;b"): 1}, source=source, options=ReadOptions())
    assert source.read_text() == SHAPES["tags"]


@pytest.mark.parametrize(
    ("shape", "refused", "taken"),
    [
        ("tags", ["a;b", "", " \t", "nan", "\0", "x\x07y", "\ud800"], ["salt, pepper", "a|b"]),
        ("commas", ["salt, pepper", "<NA>"], ["salt and pepper"]),
        ("lists", ["None"], ["salt, pepper", "a;b"]),
        ("classes", ["By", "image", "Unnamed: 0"], ["salt, pepper", "a;b"]),
        (None, ["\x1b"], ["a;b"]),
    ],
)
def test_a_new_tag_is_cleaned_and_refused_where_it_could_not_be_read_back(photos, shape, refused, taken):
    source = None if shape is None else photos / "tags.csv"
    if source is not None:
        source.write_text(SHAPES[shape])
    assert check_tag("  hot \t dog ", source, ReadOptions()) == "hot dog"
    for name in taken:
        assert check_tag(name, source, ReadOptions()) == name
    for name in refused:
        with pytest.raises(TableError):
            check_tag(name, source, ReadOptions())


def test_the_separator_that_was_given_decides_about_a_new_tag(photos):
    with pytest.raises(TableError, match="holds '/', which separates"):
        check_tag("a/b", None, ReadOptions(separator="/"))
