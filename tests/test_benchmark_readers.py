"""COCO and VOC are read as they were published, in their own order, and what is damaged in them is a sentence."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import positively as po
from positively.errors import ImageError, PositivelyError, TableError, in_shell
from positively.labels import NEGATIVE, POSITIVE, UNKNOWN, LabelTable
from positively.tables.benchmark import choose_year
from positively.tables.coco import COCO
from positively.tables.options import ReadOptions
from positively.tables.reading import read_labels
from positively.tables.voc import CLASSES, VOC
from wording import assert_names, naming

# ------------------------------------------------------------------------------------------------- files as published


def save_image(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (len(path.name), 90, sum(path.name.encode()) % 256)).save(path)


def coco_content(names: list[str]) -> dict[str, Any]:
    """Three images out of the order of their ids; the first has no object, the last a crowd; ids with gaps."""
    images = [
        {"id": number, "file_name": name, "height": 8, "width": 8}
        for number, name in zip((30, 10, 20), names, strict=True)
    ]
    outline = {"segmentation": [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]], "iscrowd": 0, "area": 4.0, "bbox": [1, 2, 3, 4]}
    crowd = {"segmentation": {"counts": [60, 4], "size": [8, 8]}, "iscrowd": 1, "area": 4.0, "bbox": [1, 2, 3, 4]}
    return {
        "info": {"year": 2014},
        "images": images,
        "licenses": [],
        "annotations": [
            {**outline, "id": 1, "image_id": 10, "category_id": 18},
            {**outline, "id": 2, "image_id": 10, "category_id": 18},
            {**outline, "id": 3, "image_id": 10, "category_id": 1},
            {**crowd, "id": 900, "image_id": 20, "category_id": 1},
        ],
        "categories": [
            {"supercategory": "animal", "id": 18, "name": "dog"},
            {"supercategory": "person", "id": 1, "name": "person"},
            {"supercategory": "animal", "id": 17, "name": "cat"},
        ],
    }


def write_coco(root: Path, part: str = "train", year: int = 2014, below: str = "", **changes: Any) -> Path:
    stem = f"COCO_{part}{year}_" if year == 2014 else ""
    names = [f"{stem}{number:012d}.jpg" for number in (30, 10, 20)]
    for name in names:
        save_image(root / below / f"{part}{year}" / name)
    file = root / "annotations" / f"instances_{part}{year}.json"
    file.parent.mkdir(exist_ok=True)
    content = coco_content(names)
    file.write_text(json.dumps({key: value for key, value in (content | changes).items() if value is not None}))
    return file


VOC_IMAGES = ["000012", "000005", "000007", "000009"]
# Class → images that show it (1) or show it only as difficult (0).
VOC_LABELS = {
    "car": {"000012": 1, "000005": 0},
    "person": {"000012": 1, "000007": 1},
    "chair": {"000005": 0},
}


def write_voc(kit: Path, year: int = 2007, part: str = "trainval", xml: bool = False, plain: bool = True) -> Path:
    home = kit / f"VOC{year}"
    lists = home / "ImageSets" / "Main"
    lists.mkdir(parents=True, exist_ok=True)
    for image in VOC_IMAGES:
        save_image(home / "JPEGImages" / f"{image}.jpg")
    if plain:
        (lists / f"{part}.txt").write_text("".join(f"{image}\n" for image in VOC_IMAGES))
    for name in CLASSES:
        states = [(image, VOC_LABELS.get(name, {}).get(image, -1)) for image in VOC_IMAGES]
        (lists / f"{name}_{part}.txt").write_text("".join(f"{image} {state:2d}\n" for image, state in states))
    if xml:
        (home / "Annotations").mkdir(exist_ok=True)
        for image in VOC_IMAGES:
            (home / "Annotations" / f"{image}.xml").write_text(voc_xml(image))
    return home


def voc_xml(image: str) -> str:
    """Annotation as published: a class that is there also has a difficult object, and a person has a head."""
    objects = ""
    for name, states in VOC_LABELS.items():
        if image in states:
            easy = f"<object><name>{name}</name><difficult>0</difficult><part><name>head</name></part></object>"
            hard = f"<object><name>{name}</name><pose>Left</pose><difficult>1</difficult></object>"
            objects += hard + easy * states[image]
    return f"<annotation><folder>VOC2007</folder><filename>{image}.jpg</filename>{objects}</annotation>"


def told(notes: list[str]) -> str:
    return in_shell("\n".join(notes))


def state(table: LabelTable, image: str, name: str) -> int:
    return int(table.states()[list(table.images).index(f"{image}.jpg"), table.classes.index(name)])


# --------------------------------------------------------------------------------------------------------------- COCO


@pytest.mark.parametrize(
    ("part", "year", "images"), [("train", 2014, ""), ("val", 2017, ""), ("train", 2017, "images")]
)
def test_coco_keeps_the_order_of_images_and_category_ids(tmp_path: Path, part: str, year: int, images: str) -> None:
    file = write_coco(tmp_path, part, year, images)
    for path in (tmp_path, file):
        table, notes = read_labels(path, ReadOptions(part=part))
        assert [name[-6:] for name in table.images] == ["30.jpg", "10.jpg", "20.jpg"]
        assert table.classes == ("person", "cat", "dog") and table.blank == NEGATIVE and table.is_complete
        assert table.states().tolist() == [[-1, -1, -1], [1, -1, 1], [1, -1, -1]]
        assert table.root == tmp_path / images / f"{part}{year}" and all(path.is_file() for path in table.paths)
        assert f"instances_{part}{year}.json: COCO {year} {part}." in told(notes)
        assert "what is not annotated is negative" in told(notes)
        assert "3 images, 3 classes, 1.0 tags per image; 1 without tags." in told(notes)
        assert "3 images and the published one" in told(notes)


def test_coco_images_without_objects_can_be_left_out(tmp_path: Path) -> None:
    write_coco(tmp_path)
    table, notes = read_labels(tmp_path, ReadOptions(empty_images="drop"))
    assert [name[-6:] for name in table.images] == ["10.jpg", "20.jpg"]
    assert_names(told(notes), "--empty-images drop", "1")


def test_coco_takes_the_only_year_and_asks_where_there_are_two(tmp_path: Path) -> None:
    write_coco(tmp_path)
    assert "2014" in told(read_labels(tmp_path)[1])
    write_coco(tmp_path, year=2017)
    with pytest.raises(TableError, match=naming("2014", "year=2017")):
        read_labels(tmp_path)
    assert read_labels(tmp_path, ReadOptions(year=2014))[0].source == "instances_train2014.json"
    with pytest.raises(TableError, match=naming("2015", "2014", "2017")):
        read_labels(tmp_path, ReadOptions(year=2015))


def test_coco_images_are_found_under_images_and_beside_a_json_of_any_name(tmp_path: Path) -> None:
    file = write_coco(tmp_path / "labels")
    photos = tmp_path / "photos"
    photos.mkdir()
    (tmp_path / "labels" / "train2014").rename(photos / "train2014")
    with pytest.raises(ImageError, match=naming("3 images", "images/train2014/", "images='DIR'")):
        COCO().read(file)
    for folder in (photos, photos / "train2014"):
        assert COCO().read(file, ReadOptions(images=str(folder)))[0].root == photos / "train2014"
    mine = file.rename(photos / "train2014" / "mine.json")
    table, notes = read_labels(mine)
    assert len(table) == 3 and "mine.json" in told(notes)
    with pytest.raises(TableError, match="images='nowhere'"):
        COCO().read(mine, ReadOptions(images="nowhere"))
    with pytest.raises(TableError, match="part='val'"):
        COCO().read(mine, ReadOptions(part="val"))


def test_coco_half_a_download_says_what_is_missing_or_leaves_it_out(tmp_path: Path) -> None:
    write_coco(tmp_path)
    (tmp_path / "train2014" / "COCO_train2014_000000000010.jpg").unlink()
    with pytest.raises(ImageError, match=naming("train2014.json image 2", "000010.jpg", "skip_missing_images")):
        read_labels(tmp_path)
    table, notes = read_labels(tmp_path, ReadOptions(skip_missing_images=True))
    assert len(table) == 2
    assert_names(told(notes), "--skip-missing-images", "1")
    (tmp_path / "train2014" / "COCO_train2014_000000000010.jpg").write_text("cut off")
    with pytest.raises(ImageError, match=naming("1 of 3", "skip_broken=True")):
        read_labels(tmp_path)
    assert len(read_labels(tmp_path, ReadOptions(skip_broken=True))[0]) == 2
    assert len(read_labels(tmp_path, ReadOptions(verify=False))[0]) == 3


def test_a_json_that_is_cut_off_or_no_json_says_where(tmp_path: Path) -> None:
    file = write_coco(tmp_path)
    file.write_text(file.read_text()[:-40])
    with pytest.raises(TableError, match=naming("instances_train2014.json line 1 column", "JSON")):
        read_labels(tmp_path)
    for content in (b"", b"\xff\xfe{", b"[" * 200_000, b'{"images": ' + b"9" * 5000 + b"}"):
        file.write_bytes(content)
        with pytest.raises(TableError, match=r"instances_train2014\.json"):
            read_labels(tmp_path)


IMAGES = coco_content(["a.jpg", "b.jpg", "c.jpg"])["images"]
PERSON = {"id": 1, "name": "person"}


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"annotations": None}, ["test", "val"]),
        ({"annotations": [{"id": 1, "image_id": 10, "caption": "A dog."}], "categories": None}, ["captions"]),
        ({"categories": [{**PERSON, "keypoints": ["nose"]}]}, ["keypoints"]),
        ({"images": None, "categories": None}, ["COCO", "images", "categories"]),
        ({"images": {"a": 1}}, ["COCO", "images"]),
        ({"images": []}, ["images", "empty"]),
        ({"annotations": []}, ["annotations", "empty"]),
        ({"categories": []}, ["categories", "empty"]),
        ({"images": [{"id": 10}]}, ["image 1", "'id'", "'file_name'"]),
        ({"images": [7]}, ["image 1", "'id'", "'file_name'"]),
        ({"images": [IMAGES[0], IMAGES[0]]}, ["image 2", "30", "'a.jpg'"]),
        ({"categories": [{"id": "x", "name": "dog"}]}, ["category 1", "'id'"]),
        ({"categories": [PERSON, PERSON]}, ["category 2", "1", "'person'"]),
        (
            {"annotations": [{"image_id": 10, "category_id": 1}, {"image_id": 11, "category_id": 1}, 5]},
            ["annotation 2", "image_id 11", "2 such"],
        ),
        (
            {"annotations": [{"image_id": 10, "category_id": 99}]},
            ["annotation 1", "category_id 99"],
        ),
        ({"annotations": [{"image_id": [], "category_id": 1}]}, ["annotation 1", "image_id"]),
    ],
)
def test_a_json_that_is_not_of_instances_says_what_it_is(
    tmp_path: Path, changes: dict[str, Any], facts: list[str]
) -> None:
    write_coco(tmp_path, **changes)
    with pytest.raises(TableError, match=naming("instances_train2014.json", *facts)) as error:
        read_labels(tmp_path)
    assert str(error.value).endswith(".")


def test_a_list_at_the_top_is_no_coco_file(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text('[{"image_id": 1, "category_id": 1, "score": 0.5}]')
    with pytest.raises(TableError, match=naming("results.json", "COCO")):
        read_labels(tmp_path / "results.json")
    with pytest.raises(TableError, match=r"nowhere\.json"):
        read_labels(tmp_path / "nowhere.json")


def test_a_part_of_coco_that_is_not_there_says_which_are(tmp_path: Path) -> None:
    write_coco(tmp_path, "val")
    with pytest.raises(TableError, match=naming("instances_train<year>.json", "instances_val2014")):
        read_labels(tmp_path)
    with pytest.raises(TableError, match=naming("instances_test2014.json", "part='val'")):
        read_labels(tmp_path, ReadOptions(part="test", year=2014))
    (tmp_path / "annotations" / "instances_val2014.json").rename(tmp_path / "annotations" / "captions_val2014.json")
    with pytest.raises(TableError, match=naming("instances_train<year>.json", "captions_val2014.json")):
        read_labels(tmp_path)
    (tmp_path / "annotations" / "captions_val2014.json").unlink()
    with pytest.raises(TableError, match="instances_train<year>"):
        read_labels(tmp_path)


# ---------------------------------------------------------------------------------------------------------------- VOC


@pytest.mark.parametrize("xml", [False, True])
@pytest.mark.parametrize(
    ("difficult", "expected"), [("unknown", UNKNOWN), ("negative", NEGATIVE), ("positive", POSITIVE)]
)
def test_voc_is_read_alike_from_xml_and_lists(tmp_path: Path, xml: bool, difficult: Any, expected: int) -> None:
    write_voc(tmp_path / "VOCdevkit", xml=xml)
    for path in (tmp_path, tmp_path / "VOCdevkit", tmp_path / "VOCdevkit" / "VOC2007"):
        table, notes = read_labels(path, ReadOptions(difficult=difficult))
        assert table.images == [f"{image}.jpg" for image in VOC_IMAGES]
        assert table.classes == CLASSES == tuple(sorted(CLASSES)) and len(CLASSES) == 20
        assert table.blank == NEGATIVE and table.total(POSITIVE) == 3 + 2 * (difficult == "positive")
        assert state(table, "000012", "car") == POSITIVE and state(table, "000009", "car") == NEGATIVE
        assert state(table, "000005", "car") == state(table, "000005", "chair") == expected
        assert_names(told(notes), difficult, "2")
        assert ("XML" in told(notes)) == xml
        assert table.place(2) == "trainval.txt line 3"


def test_voc_empty_images_can_be_left_out(tmp_path: Path) -> None:
    write_voc(tmp_path)
    assert len(VOC().read(tmp_path, ReadOptions(empty_images="drop"))[0]) == 3
    # What is said to be absent is no object.
    assert len(VOC().read(tmp_path, ReadOptions(empty_images="drop", difficult="negative"))[0]) == 2


def test_voc_takes_the_only_year_and_asks_where_there_are_two(tmp_path: Path) -> None:
    write_voc(tmp_path)
    assert "2007" in told(read_labels(tmp_path)[1])
    home = write_voc(tmp_path, 2012, xml=True)
    with pytest.raises(TableError, match=naming("2007", "year=2012")):
        read_labels(tmp_path)
    assert "VOC 2012 trainval" in told(read_labels(tmp_path, ReadOptions(year=2012))[1])
    with pytest.raises(TableError, match=naming("2010", "2007", "2012")):
        read_labels(tmp_path, ReadOptions(year=2010))
    with pytest.raises(TableError, match=naming("VOC2012", "year=2007")):
        read_labels(home, ReadOptions(year=2007))


@pytest.mark.parametrize("xml", [False, True])
def test_without_its_list_a_part_has_the_order_of_the_first_class(tmp_path: Path, xml: bool) -> None:
    write_voc(tmp_path, part="val", xml=xml, plain=False)
    table, notes = read_labels(tmp_path, ReadOptions(part="val"))
    assert table.images == [f"{image}.jpg" for image in VOC_IMAGES] and table.source == "aeroplane_val.txt"
    assert_names(told(notes), "aeroplane_val.txt", "VOC 2007 val")


def test_voc_half_a_download_says_what_is_missing_or_leaves_it_out(tmp_path: Path) -> None:
    home = write_voc(tmp_path)
    for image in ("000005", "000009"):
        (home / "JPEGImages" / f"{image}.jpg").unlink()
    facts = ("trainval.txt line 2", "'000005.jpg'", "JPEGImages/", "1 more", "000009.jpg")
    with pytest.raises(ImageError, match=naming(*facts)):
        read_labels(tmp_path)
    table, notes = read_labels(tmp_path, ReadOptions(skip_missing_images=True))
    assert table.images == ["000012.jpg", "000007.jpg"]
    assert_names(told(notes), "--skip-missing-images", "2", "4 images", "5,011")
    with pytest.raises(ImageError, match=naming("line 1", "'000012.jpg'", "3 more", "images='DIR'")):
        read_labels(tmp_path, ReadOptions(images=str(home / "ImageSets"), skip_missing_images=True))


@pytest.mark.parametrize(
    ("file", "content", "facts"),
    [
        ("trainval.txt", "", ["trainval.txt", "empty"]),
        ("trainval.txt", "000012\n\n000005\n000012\n", ["trainval.txt line 4", "'000012'", "line 1"]),
        ("trainval.txt", "000012 1\n", ["trainval.txt line 1", "'000012 1'"]),
        (
            "cow_trainval.txt",
            None,
            ["Main", "1 of 20", "cow_trainval.txt", "Anno"],
        ),
        ("cow_trainval.txt", "000012 2\n", ["cow_trainval.txt line 1", "'2'", "-1"]),
        ("cow_trainval.txt", "000012\n", ["cow_trainval.txt line 1", "'000012'"]),
        (
            "cow_trainval.txt",
            "000012 -1\n999999 1\n",
            ["line 2", "'999999'"],
        ),
        ("cow_trainval.txt", "000012 -1\n", ["cow_trainval.txt", "1 of the 4"]),
        ("cow_trainval.txt", "000012 -1\n000012 -1\n", ["line 2", "'000012'", "line 1"]),
        ("cow_trainval.txt", b"\xff\xfe\x00", ["cow_trainval.txt", "UTF-8"]),
    ],
)
def test_a_damaged_list_says_which_line(
    tmp_path: Path, file: str, content: str | bytes | None, facts: list[str]
) -> None:
    lists = write_voc(tmp_path) / "ImageSets" / "Main"
    if content is None:
        (lists / file).unlink()
    else:
        (lists / file).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(TableError, match=naming(*facts)) as error:
        read_labels(tmp_path)
    assert str(error.value).endswith(".")


BOMB = '<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><annotation>&b;</annotation>'


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        ("<annotation><object>", "XML"),
        ("", "XML"),
        (BOMB, "entities"),
        (
            "<annotation><object><name>unicorn</name></object></annotation>",
            "'unicorn'",
        ),
        ("<annotation><object/></annotation>", "''"),
        (
            "<annotation><object><name>cow</name><difficult>2</difficult></object></annotation>",
            "difficult",
        ),
    ],
)
def test_a_damaged_annotation_names_its_file(tmp_path: Path, content: str, fact: str) -> None:
    home = write_voc(tmp_path, xml=True)
    (home / "Annotations" / "000007.xml").write_text(content)
    with pytest.raises(TableError, match=naming("000007.xml", fact)):
        read_labels(tmp_path)
    # A file in another encoding does not get past the look for entities.
    for codec in ("utf-16", "utf-16-le"):
        (home / "Annotations" / "000007.xml").write_bytes(BOMB.encode(codec))
        with pytest.raises(TableError, match=naming("000007.xml", "UTF-8")):
            read_labels(tmp_path)


def test_an_object_without_the_word_difficult_is_not(tmp_path: Path) -> None:
    home = write_voc(tmp_path, xml=True)
    (home / "Annotations" / "000009.xml").write_text("<annotation><object><name> cow </name></object></annotation>")
    assert state(read_labels(tmp_path)[0], "000009", "cow") == POSITIVE


def test_missing_annotations_are_counted_and_the_test_part_is_explained(tmp_path: Path) -> None:
    home = write_voc(tmp_path, 2012, part="test", xml=True)
    (home / "Annotations" / "000005.xml").unlink()
    with pytest.raises(TableError, match=naming("Annotations", "1 of 4", "000005.xml", "2007")):
        read_labels(tmp_path, ReadOptions(part="test"))


def test_a_part_of_voc_that_is_not_there_says_which_are(tmp_path: Path) -> None:
    home = write_voc(tmp_path, part="val")
    with pytest.raises(TableError, match=naming("trainval.txt", "aeroplane_trainval.txt", "val")):
        read_labels(tmp_path)
    with pytest.raises(TableError, match=naming("part='minival'", "train", "val", "trainval", "test")):
        read_labels(tmp_path, ReadOptions(part="minival"))
    (home / "ImageSets" / "Main").rename(tmp_path / "elsewhere")
    with pytest.raises(TableError, match="Main"):
        read_labels(tmp_path)


# ------------------------------------------------------------------------------------------------------------ classes


def test_given_classes_keep_their_order_and_unknown_ones_stop(tmp_path: Path) -> None:
    write_coco(tmp_path)
    table, notes = read_labels(tmp_path, classes=["unicorn", "dog", "cat", "Person"])
    assert table.classes == ("unicorn", "dog", "cat", "Person")
    # Nobody looked for unicorns.
    assert table.states().tolist() == [[0, -1, -1, -1], [0, 1, -1, 1], [0, -1, -1, 1]]
    assert "'unicorn'" in told(notes)
    with pytest.raises(TableError, match=naming("instances_train2014.json", "'person'", "unknown_tags='ignore'")):
        read_labels(tmp_path, classes=["dog", "cat"])
    table, _ = read_labels(tmp_path, ReadOptions(unknown_tags="ignore"), classes=["dog", "cat"])
    assert table.states().tolist() == [[-1, -1], [1, -1], [-1, -1]]
    with pytest.raises(TableError, match="'dog'"):
        read_labels(tmp_path, classes=["dog", "dog"])


def test_classes_and_aliases_may_come_from_files(tmp_path: Path) -> None:
    write_voc(tmp_path)
    (tmp_path / "aliases.csv").write_text("car,vehicle\nbus,vehicle\n")
    aliases = str(tmp_path / "aliases.csv")
    table, _ = read_labels(tmp_path, ReadOptions(aliases=aliases))
    assert len(table.classes) == 19 and table.classes[5] == "vehicle"
    (tmp_path / "classes.txt").write_text("vehicle\nperson\n")
    options = ReadOptions(aliases=aliases, classes=str(tmp_path / "classes.txt"), unknown_tags="ignore")
    assert read_labels(tmp_path, options)[0].states().tolist() == [[1, 1], [0, -1], [-1, 1], [-1, -1]]


def test_official_classes_stay_unless_rare_ones_are_to_go(tmp_path: Path) -> None:
    write_voc(tmp_path)
    table, notes = read_labels(tmp_path)
    assert len(table.classes) == 20 and "'aeroplane'" in told(notes)
    table, notes = read_labels(tmp_path, ReadOptions(min_count=2))
    assert table.classes == ("person",) and "'car' 1" in told(notes)


# ----------------------------------------------------------------------------------------------------------- the way in


def test_a_folder_that_is_neither_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=naming("annotations/instances_<part><year>.json", "COCO", "VOC2007", "CSV")):
        read_labels(tmp_path)
    (tmp_path / "VOCdevkit").mkdir()
    with pytest.raises(TableError, match=naming("VOCdevkit", "VOC2007", "VOC2012")):
        read_labels(tmp_path / "VOCdevkit")
    with pytest.raises(TableError, match="VOC2007"):
        VOC().read(tmp_path / "VOC2007")
    with pytest.raises(PositivelyError, match="nowhere"):
        read_labels(tmp_path / "nowhere")


def test_a_table_of_tags_still_is_read_by_the_same_function(tmp_path: Path) -> None:
    save_image(tmp_path / "a.jpg")
    (tmp_path / "tags.csv").write_text("image,tags\na.jpg,cat\n")
    assert read_labels(tmp_path / "tags.csv")[0].classes == ("cat",)


def test_the_years_are_chosen_by_name() -> None:
    assert choose_year([2007, 2012], 2007, "VOCdevkit") == (2007, [])


def test_benchmarks_are_read_by_the_public_face(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "positively")
    write_coco(tmp_path / "coco", "val", 2017)
    table = po.read(tmp_path / "coco", part="val", year=2017, empty_images="drop")
    assert len(table) == 2 and "COCO 2017 val" in caplog.text
    write_voc(tmp_path / "VOCdevkit")
    assert po.read(tmp_path / "VOCdevkit", quiet=True, difficult="negative").is_complete
    with pytest.raises(PositivelyError, match=naming("'keep'", "'drop'")):
        po.read(tmp_path / "coco", empty_images="perhaps")


def test_the_command_line_reads_benchmarks(positively: Any, tmp_path: Path) -> None:
    home = write_voc(tmp_path / "VOCdevkit", xml=True)
    words = ("--part", "trainval", "--year", "2007", "--difficult", "positive")
    done = positively("check", home.parent, *words, check=False)  # too small to learn from
    assert_names(done.stdout, "VOC 2007 trainval", "4 images", "20 classes")
    failed = positively("check", home.parent, "--part", "test", check=False)
    assert failed.returncode == 2 and "trainval" in failed.stderr and "Traceback" not in failed.stderr
