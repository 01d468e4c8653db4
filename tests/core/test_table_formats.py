"""What every registered table format keeps to, among them the one that docs/development/extending.md shows."""

import json
import re
import sys
from datetime import datetime
from pathlib import Path

import numpy as np
import openpyxl
import pytest
from PIL import Image

import positively as po
import shapes
from conftest import options
from positively.cli import main
from positively.errors import ConfigError, PositivelyError, TableError, in_shell
from positively.labels import LabelTable
from positively.missing.files import MissingFolder
from positively.registry import TABLES, load_plugin
from positively.runs.formats import write_predictions_file
from positively.runs.pictures import find_pictures
from positively.runs.tagging import Prediction
from positively.tables.formats import Writer, find_format, table_suffixes, writers
from positively.tables.options import ReadOptions
from positively.tables.reading import read_labels
from positively.tables.write_back import check_writable, write_table

PAGE = (Path(__file__).parents[2] / "docs" / "development" / "extending.md").read_text(encoding="utf-8")
NAMES = [*TABLES, "ndjson"]
WRITABLE = ["csv", "tsv", "parquet", "jsonl", "xlsx", "ndjson"]
IMAGES = ["a.jpg", "b.jpg", "c.jpg"]
STATES = np.array([[1, -1], [0, 1], [0, 0]], dtype=np.int8)  # of the classes car and dog


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    code = next(code for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "register_table" in code)
    path = tmp_path_factory.mktemp("plugin") / "ndjson.py"
    path.write_text(code)
    return path


@pytest.fixture(scope="module", autouse=True)
def loaded(plugin):
    load_plugin(str(plugin))
    yield
    load_plugin.cache_clear()
    TABLES._entries.pop("ndjson")


def save_photos(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(IMAGES):
        Image.new("RGB", (8, 8), (90 * number, 90, 0)).save(folder / name)


def write_coco(root: Path) -> Path:
    save_photos(root)
    content = {
        "images": [{"id": number, "file_name": name} for number, name in enumerate(IMAGES)],
        "categories": [{"id": 1, "name": "car"}, {"id": 2, "name": "dog"}],
        "annotations": [{"id": 1, "image_id": 0, "category_id": 1}, {"id": 2, "image_id": 1, "category_id": 2}],
    }
    (root / "mine.json").write_text(json.dumps(content))
    return root / "mine.json"


def write_voc(root: Path) -> Path:
    home = root / "VOC2007"
    save_photos(home / "JPEGImages")
    (home / "ImageSets" / "Main").mkdir(parents=True)
    (home / "ImageSets" / "Main" / "trainval.txt").write_text("".join(f"{Path(name).stem}\n" for name in IMAGES))
    (home / "Annotations").mkdir()
    for name, thing in zip(IMAGES, ("car", "dog", None), strict=True):
        found = f"<object><name>{thing}</name></object>" if thing else ""
        (home / "Annotations" / f"{Path(name).stem}.xml").write_text(f"<annotation>{found}</annotation>")
    return home


def write_example(name: str, root: Path) -> Path:
    """A car in a.jpg, a dog in b.jpg, nothing known of c.jpg, written by hand or by the format itself."""
    by_hand = {"coco": write_coco, "voc": write_voc}
    if name in by_hand:
        return by_hand[name](root)
    save_photos(root)
    path = root / f"tags{TABLES[name].suffixes[0]}"
    assert isinstance(TABLES[name](), Writer), f"a format that cannot be written needs an example here: {name}"
    write_table(path, example_table(root), {}, source=None, options=ReadOptions())
    return path


def example_table(root: Path) -> LabelTable:
    (root / "given.csv").write_text("image,car,dog\na.jpg,1,-1\nb.jpg,,1\nc.jpg,,\n")
    return read_labels(root / "given.csv", ReadOptions(images=str(root)))[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_format_reads_what_is_in_it(name, tmp_path):
    path = write_example(name, tmp_path / name)
    table, notes = read_labels(path)
    states = {c: table.states()[:, table.classes.index(c)].tolist() for c in ("car", "dog")}
    assert [value == 1 for value in states["car"]] == [True, False, False]
    assert [value == 1 for value in states["dog"]] == [False, True, False]
    assert [Path(image).name for image in table.images] == IMAGES and all(place.is_file() for place in table.paths)
    assert table.source and table.source in notes[0] and all(in_shell(note).strip() for note in notes)


@pytest.mark.parametrize("name", NAMES)
def test_a_format_takes_the_classes_it_is_given_in_their_order(name, tmp_path):
    table, _ = read_labels(write_example(name, tmp_path), classes=["dog", "car", *_others(name)])
    assert table.classes[:2] == ("dog", "car") and table.counts(po.LabelState.POSITIVE)[:2].tolist() == [1, 1]


def _others(name: str) -> list[str]:
    from positively.tables.voc import CLASSES

    return [one for one in CLASSES if one not in ("dog", "car")] if name == "voc" else []


@pytest.mark.parametrize("name", NAMES)
def test_a_format_recognises_its_own_and_nothing_else(name, tmp_path):
    for other in NAMES:
        assert TABLES[name]().matches(write_example(other, tmp_path / other)) == (name == other), other
    found = find_format(write_example(name, tmp_path / "again"))
    assert type(found) is TABLES[name]
    assert not TABLES[name]().matches(tmp_path / "again" / "a.jpg") and not TABLES[name]().matches(tmp_path / "gone")


@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_be_read_is_a_sentence_with_the_path(name, tmp_path):
    path = write_example(name, tmp_path)
    gone = path.with_name(f"gone{path.suffix}")
    with pytest.raises(PositivelyError, match="gone"):
        TABLES[name]().read(gone)
    with pytest.raises(PositivelyError, match="gone"):
        read_labels(gone)
    if path.is_dir():
        (path / "ImageSets" / "Main" / "trainval.txt").write_bytes(b"\0\1\2" * 100)
    else:
        path.write_bytes(b"PAR1" * (name == "parquet") + b"\0\1\2" * 100)
    with pytest.raises(PositivelyError, match=re.escape(path.name)):
        read_labels(path)


@pytest.mark.parametrize("name", NAMES)
def test_a_format_names_its_images(name, tmp_path):
    path = write_example(name, tmp_path)
    root, names = TABLES[name]().images(path)
    assert [(root / one).name for one in names] == IMAGES and (root / names[0]).is_file()
    if path.is_file():  # then `predict` takes it for a table
        assert path.suffix in table_suffixes()
        assert [Path(str(picture.source)).name for picture in find_pictures([path])] == IMAGES


@pytest.mark.parametrize("name", WRITABLE)
def test_labels_come_back_from_what_a_format_writes(name, tmp_path):
    path = write_example(name, tmp_path)
    again, _ = read_labels(path, classes=["car", "dog"])
    np.testing.assert_array_equal(again.states(), STATES)
    out = tmp_path / f"new{path.suffix}"
    changes = {("c.jpg", "a zebra, striped"): 1, ("b.jpg", "car"): -1, ("a.jpg", "dog"): 1}
    write_table(out, again, changes, source=path, options=ReadOptions())
    changed, _ = read_labels(out, classes=["car", "dog", "a zebra, striped"])
    assert changed.states().tolist() == [[1, 1, 0], [-1, 1, 0], [0, 0, 1]]
    write_table(out, again, changes, source=path, options=ReadOptions(), column="missing")
    kept, _ = read_labels(out, classes=["car", "dog"])
    assert kept.states().tolist() == [[1, -1], [-1, 1], [0, 0]]


@pytest.mark.parametrize("source", WRITABLE)
@pytest.mark.parametrize("target", WRITABLE)
def test_a_table_of_one_format_is_written_in_another(source, target, tmp_path):
    path = write_example(source, tmp_path)
    out = tmp_path / f"new{TABLES[target].suffixes[0]}"
    write_table(out, read_labels(path)[0], {("c.jpg", "car"): 1}, source=path, options=ReadOptions())
    assert read_labels(out, classes=["car", "dog"])[0].states().tolist() == [[1, -1], [0, 1], [1, 0]]


def test_every_format_that_writes_is_tested_here():
    assert set(writers()) == {TABLES[name].suffixes[0] for name in WRITABLE}


def test_a_format_of_ones_own_is_asked_first(tmp_path):
    path = write_coco(tmp_path)
    try:

        @po.register_table("mine")
        class Mine(TABLES["jsonl"]):
            suffixes = (".json",)

        path.write_text('{"image": "a.jpg", "tags": ["cat"]}\n')
        assert read_labels(path)[0].classes == ("cat",)
    finally:
        TABLES._entries.pop("mine", None)
    with pytest.raises(TableError, match="COCO"):
        read_labels(path)


@pytest.mark.parametrize("lost", ["the column", "its cells"])
def test_a_format_that_drops_an_added_column_is_caught(lost, tmp_path):
    class Forgetful(TABLES["csv"]):
        suffixes = (".lossy",)

        def write(self, table, out):
            super().write(table, out)
            header, *lines = (line.rpartition(",")[0] for line in out.read_text().splitlines())
            lines = [header, *lines] if lost == "the column" else [f"{header},missing", *(f"{line}," for line in lines)]
            out.write_text("\n".join(lines) + "\n")

    path = write_example("csv", tmp_path)
    try:
        po.register_table("lossy")(Forgetful)
        with pytest.raises(TableError, match="missing"):
            changes = {("c.jpg", "car"): 1}
            table = read_labels(path)[0]
            write_table(tmp_path / "o.lossy", table, changes, source=path, options=ReadOptions(), column="missing")
    finally:
        TABLES._entries.pop("lossy", None)
    assert not (tmp_path / "o.lossy").exists()


def test_the_command_line_reads_the_format_of_a_plugin(plugin, place, tmp_path, positively):
    table = shapes.write_shapes(tmp_path, "train", 120, seed=1).with_known_ratio(0.5, 0).positives_only()
    path = tmp_path / "shapes.ndjson"
    write_table(path, table, {}, source=None, options=ReadOptions())
    words = [path, "--images", table.root, "--plugin", plugin]
    assert "shapes.ndjson, NDJSON" in positively("check", *words).stdout
    network = {name: value for name, value in shapes.frozen(place).items() if name != "head_options"}
    positively("missing", *words, *options(network))
    written = tmp_path / "shapes.positively" / "missing" / "shapes.ndjson"
    first = json.loads(written.read_text().splitlines()[0])
    assert isinstance(first["tags"], list) and "missing" in first
    again, _ = read_labels(written, ReadOptions(images=str(table.root)), table.classes)
    np.testing.assert_array_equal(again.states(), table.states())


def test_an_ending_that_no_format_writes_is_refused(tmp_path, capsys):
    with pytest.raises(TableError, match=r"tags\.ods.*\.csv.*\.parquet"):
        check_writable(tmp_path / "tags.ods")
    assert main(["check", str(tmp_path)]) == 2
    assert "COCO" in capsys.readouterr().err


def test_without_pyarrow_only_parquet_is_out_of_reach(tmp_path, monkeypatch):
    path = write_example("parquet", tmp_path)
    table = example_table(tmp_path)
    found = po.find_missing(np.full((3, 2), 0.5), STATES, images=IMAGES, classes=["car", "dog"])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    command = re.escape("pip install 'positively[parquet]'")
    with pytest.raises(ConfigError, match=rf"(?s)(?=.*Parquet)(?=.*pyarrow).*{command}"):
        read_labels(path)
    with pytest.raises(ConfigError, match=rf"(?s)(?=.*Parquet).*{command}"):
        write_table(tmp_path / "out.parquet", table, {}, source=None, options=ReadOptions())
    with pytest.raises(ConfigError, match=command):
        MissingFolder(tmp_path / "lists").write(found, "parquet", {})
    assert not (tmp_path / "out.parquet").exists()
    write_table(tmp_path / "out.csv", table, {}, source=None, options=ReadOptions())
    assert len(read_labels(tmp_path / "out.csv")[0]) == 3
    files = MissingFolder(tmp_path / "lists").write(found, "csv", {})
    assert all(file.read_text().startswith(("image,tag,", "tag,")) for file in files)


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("a.json", '[{"id": 1, "data": {"image": "a.jpg"}, "annotations": []}]', "Label Studio"),
        ("a.json", '{"version": "5.0", "shapes": [], "imagePath": "a.jpg"}', "LabelMe"),
        ("a.json", '[{"SourceFile": "a.jpg", "Subject": ["cat"]}]', "exiftool"),
        ("a.json", '{"_via_settings": {}}', "VGG"),
        ("a.json", '{"some": "thing"}', "JSON"),
        ("a.json", '{"image": "a.jpg", "tags": []}\n{"image": "b.jpg", "tags": []}\n', ".jsonl"),
        ("a.xml", "<?xml version='1.0'?><annotations><image id='0' name='a.jpg'/></annotations>", "CVAT"),
        ("a.xml", "<annotation><object><name>cat</name></object></annotation>", "VOC"),
        ("a.xmp", "<x:xmpmeta xmlns:x='adobe:ns:meta/'/>", "exiftool"),
        ("a.txt", "0 0.5 0.5 0.2 0.2\n1 0.1 0.1 0.2 0.2\n", "YOLO"),
        ("data.yaml", "train: images\nnames: [cat, dog]\n", "YOLO"),
        ("a.lrcat", "SQLite format 3", "Lightroom"),
    ],
)
def test_a_file_of_another_program_is_named(name, text, named, tmp_path, capsys):
    (tmp_path / name).write_text(text)
    assert main(["check", str(tmp_path / name)]) == 2
    told = capsys.readouterr().err
    assert named in told and "Traceback" not in told


@pytest.mark.parametrize(
    ("files", "named"),
    [
        (["data.yaml", "labels/a.txt"], "YOLO"),
        (["a.jpg", "a.xmp"], "XMP"),
        (["cat/a.jpg"], "class"),
        (["a.jpg"], "table"),
        (["Annotations/a.xml"], "VOC"),
    ],
)
def test_a_folder_of_another_program_is_named(files, named, tmp_path):
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(TableError, match=named):
        read_labels(tmp_path)


def test_predictions_are_read_as_a_table(tmp_path):
    save_photos(tmp_path / "photos")
    predictions = [Prediction("photos/a.jpg", {"cat": 0.9, "dog, wet": 0.6}), Prediction("photos/b.jpg", {"cat": 0.7})]
    write_predictions_file(tmp_path / "new.jsonl", [*predictions, Prediction("photos/c.jpg")])
    for folder in (None, str(tmp_path / "photos")):
        table, _ = read_labels(tmp_path / "new.jsonl", ReadOptions(images=folder))
        assert table.classes == ("cat", "dog, wet") and (table.states() == 1).tolist() == [[1, 1], [1, 0], [0, 0]]


def test_json_lines_keep_their_values(tmp_path):
    save_photos(tmp_path)
    lines = [
        {"image": "a.jpg", "tags": ["car"], "width": 8, "camera": {"model": "X"}},
        {"image": "b.jpg", "tags": [], "width": None, "is_raw": True},
    ]
    source = tmp_path / "tags.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    table, _ = read_labels(source)
    write_table(tmp_path / "new.jsonl", table, {("b.jpg", "car"): 1}, source=source, options=ReadOptions())
    written = [json.loads(line) for line in (tmp_path / "new.jsonl").read_text().splitlines()]
    assert written == [lines[0], lines[1] | {"tags": ["car"]}]
    write_table(tmp_path / "new.csv", table, {("b.jpg", "car"): 1}, source=source, options=ReadOptions())
    assert "model" in (tmp_path / "new.csv").read_text()


def test_a_workbook_keeps_its_sheets_types_and_formulas(tmp_path):
    save_photos(tmp_path)
    book = openpyxl.Workbook()
    book.active.append(["Read me first"])
    sheet = book.create_sheet("Fotos")
    rows = [
        ["Datei", "Schlagworte", "Jahr", "am"],
        ["a.jpg", "car", 1999, datetime(2020, 1, 2)],
        [],
        ["b.jpg", None, "=1+1"],
    ]
    for row in rows:
        sheet.append(row)
    book.save(tmp_path / "tags.xlsx")
    table, notes = read_labels(tmp_path / "tags.xlsx")
    assert "'Fotos'" in notes[0] and table.classes == ("car",)
    changes = {("b.jpg", "=dog"): 1, ("a.jpg", "=dog"): -1}
    write_table(tmp_path / "new.xlsx", table, changes, source=tmp_path / "tags.xlsx", options=ReadOptions())
    again = openpyxl.load_workbook(tmp_path / "new.xlsx")
    assert again.sheetnames == ["Sheet", "Fotos"]
    first, second, third, *_ = again["Fotos"].iter_rows(values_only=True)
    assert first[:4] == ("Datei", "Schlagworte", "Jahr", "am") and len(first) == 5
    assert second == ("a.jpg", "car", 1999, datetime(2020, 1, 2), "=dog") and third[:3] == ("b.jpg", "=dog", "=1+1")
    assert [again["Fotos"].cell(3, place).data_type for place in (2, 3)] == ["s", "f"]


def test_merged_cells_of_a_workbook_stay_merged(tmp_path):
    save_photos(tmp_path)
    book = openpyxl.Workbook()
    for row in (["image", "tags", "note"], ["a.jpg", "car", "mine"], ["b.jpg", "car"]):
        book.active.append(row)
    book.active.merge_cells("C2:C3")
    book.save(tmp_path / "tags.xlsx")
    table, _ = read_labels(tmp_path / "tags.xlsx")
    write_table(tmp_path / "new.xlsx", table, {}, source=tmp_path / "tags.xlsx", options=ReadOptions())
    assert str(openpyxl.load_workbook(tmp_path / "new.xlsx").active.merged_cells) == "C2:C3"
    book.active["B3"].value = None
    book.active.merge_cells("B2:B3")
    book.save(tmp_path / "tags.xlsx")
    with pytest.raises(TableError, match="B3"):
        write_table(
            tmp_path / "new.xlsx", table, {("b.jpg", "dog"): 1}, source=tmp_path / "tags.xlsx", options=ReadOptions()
        )


def test_without_openpyxl_only_workbooks_are_out_of_reach(tmp_path, monkeypatch):
    path = write_example("xlsx", tmp_path)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ConfigError, match=re.escape("positively[xlsx]")):
        read_labels(path)
