"""A table that is written again holds what it held, with what was found since, in the shape it came in."""

import csv
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from positively.errors import TableError
from positively.labels import LabelTable
from positively.tables.options import ReadOptions
from positively.tables.reading import read_labels
from positively.tables.write_back import check_tag, write_table
from wording import naming

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


def test_another_name_of_a_tag_is_no_new_tag(photos):
    source, aliases = photos / "tags.csv", photos / "aliases.csv"
    source.write_text(SHAPES["tags"])
    aliases.write_text("alias,name\nkitty,cat\nPooch,pooch\n")
    options = ReadOptions(aliases=str(aliases))
    for place in (source, photos / "instances.json", None):
        with pytest.raises(TableError, match=naming("'Kitty'", "'cat'", "aliases.csv")):
            check_tag("Kitty", place, options)
        assert check_tag("POOCH", place, options) == "POOCH"  # a line that only chooses a spelling


def test_the_table_itself_and_unknown_formats_are_refused(photos):
    source = photos / "tags.csv"
    source.write_text(SHAPES["tags"])
    table, _ = read_labels(source, ReadOptions())
    with pytest.raises(TableError, match=r"tags\.csv"):
        write_table(source, table, CHANGES, source=source, options=ReadOptions())
    with pytest.raises(TableError, match=r"\.ods"):
        write_table(photos / "out.ods", table, CHANGES, source=source, options=ReadOptions())
    with pytest.raises(TableError, match="';'"):
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
    with pytest.raises(TableError, match="'/'"):
        check_tag("a/b", None, ReadOptions(separator="/"))


A_LINE_EACH = {  # what a table says, how it is read, what changes, and what it says then
    "images are tidied": (
        "image,tags\n././a.jpg,cat\n.//b.jpg,dog\nc.jpg,cat;dog\n",
        {},
        {("a.jpg", "dog"): 1, ("b.jpg", "cat"): 1},
        "image,tags\n././a.jpg,cat;dog\n.//b.jpg,dog;cat\nc.jpg,cat;dog\n",
    ),
    "zeros stay where a blank is negative": (
        "image,cat,dog\na.jpg,1,0\nb.jpg,0,1\nc.jpg,,0\nd.jpg,1,1\n",
        {"blank": "negative"},
        {("a.jpg", "dog"): -1, ("d.jpg", "cat"): 0, ("d.jpg", "fox"): 1},
        "image,cat,dog,fox\na.jpg,1,-1,0\nb.jpg,0,1,0\nc.jpg,,0,0\nd.jpg,0,1,1\n",
    ),
    "zeros become blanks beside an absence": (
        "image,cat,dog\na.jpg,1,0\nb.jpg,0,1\nc.jpg,-1,0\n",
        {},
        {("a.jpg", "fox"): 1},
        "image,cat,dog,fox\na.jpg,1,,1\nb.jpg,,1,\nc.jpg,-1,,\n",
    ),
    "one of several tags on a line": (
        "image,tags,state\na.jpg,cat;dog,1\nb.jpg,dog,1\nc.jpg,cat,1\n",
        {},
        {("a.jpg", "cat"): -1},
        "image,tags,state\na.jpg,dog,1\nb.jpg,dog,1\nc.jpg,cat,1\na.jpg,cat,-1\n",
    ),
    "a state changes where it stands": (
        "image,label,confidence,who\na.jpg,cat,1,ann\na.jpg,dog,0,bob\nb.jpg,dog,1,cid\nc.jpg,cat,1,d\n",
        {},
        {("a.jpg", "dog"): 1, ("b.jpg", "dog"): -1, ("c.jpg", "dog"): -1},
        "image,label,confidence,who\na.jpg,cat,1,ann\na.jpg,dog,1,bob\nb.jpg,dog,-1,cid\nc.jpg,cat,1,d\nc.jpg,dog,-1,\n",
    ),
    "pairs without a state": (
        "image,tag,who\na.jpg,cat,ann\na.jpg,dog,bob\nb.jpg,cat,cid\n",
        {"zero": "negative"},
        {("a.jpg", "dog"): 0, ("b.jpg", "dog"): 1},
        "image,tag,who\na.jpg,cat,ann\nb.jpg,cat,cid\nb.jpg,dog,\n",
    ),
    "a comma in a name, and no other mark": (
        "image,tags\na.jpg,cat\nb.jpg,\nc.jpg,\n",
        {},
        {("b.jpg", "salt, pepper"): 1, ("c.jpg", "salt, pepper"): 1},
        'image,tags\na.jpg,"[""cat""]"\nb.jpg,"[""salt, pepper""]"\nc.jpg,"[""salt, pepper""]"\n',
    ),
    "a comma in a name, in a list of pairs": (
        "image,tag\na.jpg,cat\na.jpg,dog\nb.jpg,cat\n",
        {},
        {("b.jpg", "salt, pepper"): 1},
        'image,tag\na.jpg,cat\na.jpg,dog\nb.jpg,cat\nb.jpg,"salt, pepper"\n',
    ),
    "a class called absent": (
        "image,tags,absent\na.jpg,cat;dog,0\nb.jpg,dog,1\nc.jpg,cat,0\n",
        {},
        {("b.jpg", "cat"): -1},
        "image,tags,absent,absences\na.jpg,cat;dog,0,\nb.jpg,dog,1,cat\nc.jpg,cat,0,\n",
    ),
    "complete tags": (
        "image,tags\na.jpg,cat;dog\nb.jpg,dog\n",
        {"blank": "negative"},
        {("a.jpg", "dog"): -1},
        "image,tags\na.jpg,cat\nb.jpg,dog\n",
    ),
}


@pytest.mark.parametrize("case", A_LINE_EACH)
def test_no_label_and_no_cell_is_lost_in_silence(photos, case):
    text, how, changes, expected = A_LINE_EACH[case]
    source, out = photos / "tags.csv", photos / "out.csv"
    source.write_text(text)
    table, _ = read_labels(source, ReadOptions(**how))
    write_table(out, table, changes, source=source, options=ReadOptions(**how))
    assert out.read_text() == expected
    before, after = labels(source, **how), labels(out, **how)
    for image, tag in {(image, tag) for image in before for tag in table.classes} | set(changes):
        state = changes.get((image, tag), (tag in before[image][0]) - (tag in before[image][1]))
        assert (tag in after[image][0]) - (tag in after[image][1]) == state


def test_names_with_marks_come_back_from_what_had_no_table(photos):
    out = photos / "out.csv"
    table = LabelTable.from_positives(["a.jpg", "b.jpg"], ["a;b", "salt, pepper"], [[0, 1], [1]])
    write_table(out, replace(table, root=photos), {}, source=None, options=ReadOptions())
    assert labels(out) == {"a.jpg": ({"a;b", "salt, pepper"}, set()), "b.jpg": ({"salt, pepper"}, set())}


@pytest.mark.parametrize(
    ("text", "how", "changes", "fact"),
    [
        (
            "image,tags\na.jpg,cat;dog\nb.jpg,dog\n",
            {"blank": "negative"},
            {("a.jpg", "dog"): 0},
            "'dog' of image 'a.jpg'",
        ),
        ("image,cat,dog\na.jpg,1,\nb.jpg,,1\n", {}, {("a.jpg", "image"): 1}, "'image'"),
        ("image,tags\na.jpg,cat;dog\nb.jpg,dog\n", {}, {("e.jpg", "dog"): 1}, "'e.jpg'"),
        ("image,tags\na.jpg,cat;dog\nb.jpg,dog\n", {}, {("b.jpg", "nan"): 1}, "'nan'"),
        ("image,tags\na.jpg,cat;dog\nb.jpg,dog\n", {}, {("b.jpg", "o\0o"): 1}, "character"),
    ],
)
def test_what_cannot_be_said_is_a_sentence_and_leaves_nothing_behind(photos, text, how, changes, fact):
    source = photos / "tags.csv"
    source.write_text(text)
    before = sorted(photos.iterdir())
    table, _ = read_labels(source, ReadOptions(**how))
    with pytest.raises(TableError, match=fact):
        write_table(photos / "out.csv", table, changes, source=source, options=ReadOptions(**how))
    assert sorted(photos.iterdir()) == before


def test_what_the_reader_left_out_is_no_loss(photos):
    source, out, classes = photos / "tags.csv", photos / "out.csv", photos / "classes.txt"
    source.write_text("image,tags\na.jpg,cat;rare\nb.jpg,cat;dog\nc.jpg,dog\ngone.jpg,dog\n")
    classes.write_text("dog\ncat\nnobody\n")
    for how in ({"min_count": 2}, {"classes": str(classes), "unknown_tags": "ignore"}):
        options = ReadOptions(skip_missing_images=True, **how)
        table, _ = read_labels(source, options)
        write_table(out, table, {("c.jpg", "cat"): 1, ("c.jpg", "dog"): -1}, source=source, options=options)
        assert out.read_text().splitlines()[1:] == [
            "a.jpg,cat;rare,",
            "b.jpg,cat;dog,",
            "c.jpg,cat,dog",
            "gone.jpg,dog,",
        ]


THREE = ["a.jpg", "b.jpg", "c.jpg"]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize(
    ("columns", "changes"),
    [
        ({"cat": [True, False, True], "dog": [False, True, False]}, {("a.jpg", "dog"): -1}),
        ({"cat": pa.array([1, 0, 1], pa.uint8()), "dog": pa.array([0, 1, 0], pa.uint8())}, {("a.jpg", "dog"): -1}),
        ({"cat": [1.0, None, 1.0], "dog": [None, 1.0, None]}, {("a.jpg", "dog"): -1, ("b.jpg", "cat"): 1}),
        ({"tags": [[1, 2], [2], None]}, {("b.jpg", "1"): 1, ("c.jpg", "2"): -1}),
        ({"tags": [[1, 2], [2], [1]]}, {("b.jpg", "cat"): 1}),
        ({"tag": [1, 2, 1], "when": pa.array([1, 2, 3], pa.timestamp("ns"))}, {("b.jpg", "1"): 1}),
        (
            {"tags": pa.array(["cat;dog", "dog", "cat"]).dictionary_encode()},
            {("b.jpg", "cat"): 1, ("c.jpg", "dog"): -1},
        ),
    ],
)
def test_parquet_columns_widen_to_hold_what_is_new(photos, columns, changes, ending):
    source, out = photos / "tags.parquet", photos / f"out.{ending}"
    pq.write_table(pa.table({"image": THREE, **columns}), source)
    table, _ = read_labels(source, ReadOptions())
    write_table(out, table, changes, source=source, options=ReadOptions())
    before, after = labels(source), labels(out)
    for (image, tag), state in changes.items():
        for place, mark in enumerate((1, -1)):
            before[image][place].discard(tag)
            before[image][place].update({tag} if state == mark else set())
    assert after == before
    if ending == "parquet":
        kinds = pq.read_schema(source), pq.read_schema(out)
        assert kinds[0].field("image") == kinds[1].field("image")
        assert "when" not in columns or kinds[1].field("when").type == pa.timestamp("ns")


def test_parquet_keeps_its_metadata(photos):
    source, out = photos / "tags.parquet", photos / "out.parquet"
    pq.write_table(
        pa.table({"image": THREE, "tags": ["cat", "dog", "cat"]}).replace_schema_metadata({"by": "me"}), source
    )
    table, _ = read_labels(source, ReadOptions())
    write_table(out, table, {("a.jpg", "dog"): -1}, source=source, options=ReadOptions())
    assert pq.read_schema(out).metadata[b"by"] == b"me"


def test_what_excel_wrote_opens_in_excel_again(photos):
    source, out = photos / "tags.csv", photos / "out.csv"
    source.write_bytes(b"\xef\xbb\xbfimage;tags\r\na.jpg;caf\xc3\xa9\r\nb.jpg;dog\r\n")
    table, _ = read_labels(source, ReadOptions())
    write_table(out, table, {("b.jpg", "café"): 1}, source=source, options=ReadOptions())
    assert out.read_bytes() == b"\xef\xbb\xbfimage;tags\r\na.jpg;caf\xc3\xa9\r\nb.jpg;dog;caf\xc3\xa9\r\n".replace(
        b"dog;caf\xc3\xa9", b'"dog;caf\xc3\xa9"'
    )
    source.write_bytes("image,tags\na.jpg,café\nb.jpg,dog\n".encode("cp1252"))
    table, _ = read_labels(source, ReadOptions())
    write_table(out, table, {("b.jpg", "café"): 1}, source=source, options=ReadOptions())
    assert out.read_bytes().startswith(b"\xef\xbb\xbf") and labels(out)["b.jpg"][0] == {"dog", "café"}


@pytest.mark.parametrize("mark", ["^", ";", "\t"])
def test_a_first_line_for_excel_stays(photos, mark):
    source, out = photos / "tags.csv", photos / "out.csv"
    lines = ["SEP={}", "image{}tags", "a.jpg{}dog", "b.jpg{}cat", "c.jpg{}cat", ""]
    source.write_bytes("\r\n".join(lines).replace("{}", mark).encode())
    table, _ = read_labels(source, ReadOptions())
    write_table(out, table, {("b.jpg", "cat"): -1}, source=source, options=ReadOptions())
    assert out.read_bytes().startswith(f"sep={mark}\r\nimage{mark}tags{mark}absent\r\n".encode())
    assert labels(out) == {"a.jpg": ({"dog"}, set()), "b.jpg": (set(), {"cat"}), "c.jpg": ({"cat"}, set())}
    write_table(photos / "out.tsv", table, {("b.jpg", "cat"): -1}, source=source, options=ReadOptions())
    assert labels(photos / "out.tsv") == labels(out)
