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
        assert "Complete: what is not annotated is negative" in told(notes)
        assert "3 images, 3 classes, 1.0 tags an image; images without any: 1." in told(notes)
        assert "A list of 3 images; the published one has" in told(notes)


def test_coco_images_without_objects_can_be_left_out(tmp_path: Path) -> None:
    write_coco(tmp_path)
    table, notes = read_labels(tmp_path, ReadOptions(empty_images="drop"))
    assert [name[-6:] for name in table.images] == ["10.jpg", "20.jpg"]
    assert "Images without any object were left out (--empty-images drop): 1." in told(notes)


def test_coco_takes_the_only_year_and_asks_where_there_are_two(tmp_path: Path) -> None:
    write_coco(tmp_path)
    assert "Year 2014: the only one in" in told(read_labels(tmp_path)[1])
    write_coco(tmp_path, year=2017)
    with pytest.raises(TableError, match=r"holds the years 2014 and 2017. Say which one is meant: year=2017"):
        read_labels(tmp_path)
    assert read_labels(tmp_path, ReadOptions(year=2014))[0].source == "instances_train2014.json"
    with pytest.raises(TableError, match=r"there is no year 2015, only 2014 and 2017"):
        read_labels(tmp_path, ReadOptions(year=2015))


def test_coco_images_are_found_under_images_and_beside_a_json_of_any_name(tmp_path: Path) -> None:
    file = write_coco(tmp_path / "labels")
    photos = tmp_path / "photos"
    photos.mkdir()
    (tmp_path / "labels" / "train2014").rename(photos / "train2014")
    with pytest.raises(
        ImageError, match=r"none of its 3 images lies in .*train2014/, .*images/train2014/. Pass images='DIR'"
    ):
        COCO().read(file)
    for folder in (photos, photos / "train2014"):
        assert COCO().read(file, ReadOptions(images=str(folder)))[0].root == photos / "train2014"
    mine = file.rename(photos / "train2014" / "mine.json")
    table, notes = read_labels(mine)
    assert len(table) == 3 and "mine.json: annotations in the format of COCO." in told(notes)
    with pytest.raises(TableError, match="images='nowhere': there is no such folder"):
        COCO().read(mine, ReadOptions(images="nowhere"))
    with pytest.raises(TableError, match=r"part='val' does not fit the name of this file"):
        COCO().read(mine, ReadOptions(part="val"))


def test_coco_half_a_download_says_what_is_missing_or_leaves_it_out(tmp_path: Path) -> None:
    write_coco(tmp_path)
    (tmp_path / "train2014" / "COCO_train2014_000000000010.jpg").unlink()
    with pytest.raises(ImageError, match=r"train2014.json image 2: .*COCO_\w+10.jpg.*skip_missing_images"):
        read_labels(tmp_path)
    table, notes = read_labels(tmp_path, ReadOptions(skip_missing_images=True))
    assert len(table) == 2 and "because they are not there (--skip-missing-images): 1." in told(notes)
    (tmp_path / "train2014" / "COCO_train2014_000000000010.jpg").write_text("cut off")
    with pytest.raises(ImageError, match=r"1 of 3 images cannot be decoded.*skip_broken=True"):
        read_labels(tmp_path)
    assert len(read_labels(tmp_path, ReadOptions(skip_broken=True))[0]) == 2
    assert len(read_labels(tmp_path, ReadOptions(verify=False))[0]) == 3


def test_a_json_that_is_cut_off_or_no_json_says_where(tmp_path: Path) -> None:
    file = write_coco(tmp_path)
    file.write_text(file.read_text()[:-40])
    with pytest.raises(
        TableError, match=r"instances_train2014.json line 1 column \d+: the file is cut off, or no JSON"
    ):
        read_labels(tmp_path)
    for content in (b"", b"\xff\xfe{", b"[" * 200_000, b'{"images": ' + b"9" * 5000 + b"}"):
        file.write_bytes(content)
        with pytest.raises(TableError, match=r"instances_train2014.json.*Download it again\.$"):
            read_labels(tmp_path)


IMAGES = coco_content(["a.jpg", "b.jpg", "c.jpg"])["images"]
PERSON = {"id": 1, "name": "person"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"annotations": None}, "images without annotations, as COCO gives for its test part. Pass the val part"),
        ({"annotations": [{"id": 1, "image_id": 10, "caption": "A dog."}], "categories": None}, "a file of captions"),
        ({"categories": [{**PERSON, "keypoints": ["nose"]}]}, "a file of keypoints, which knows persons alone"),
        ({"images": None, "categories": None}, "not a COCO file, since it has no list of images, categories"),
        ({"images": {"a": 1}}, "not a COCO file, since it has no list of images"),
        ({"images": []}, "the list of images is empty"),
        ({"annotations": []}, "the list of annotations is empty"),
        ({"categories": []}, "the list of categories is empty"),
        ({"images": [{"id": 10}]}, "image 1: it needs an 'id' and a 'file_name'"),
        ({"images": [7]}, "image 1: it needs an 'id' and a 'file_name'"),
        ({"images": [IMAGES[0], IMAGES[0]]}, "image 2: the id 30 or the file 'a.jpg' stands twice"),
        ({"categories": [{"id": "x", "name": "dog"}]}, "category 1: it needs an 'id'"),
        ({"categories": [PERSON, PERSON]}, "category 2: the id 1 or the name 'person' stands twice"),
        (
            {"annotations": [{"image_id": 10, "category_id": 1}, {"image_id": 11, "category_id": 1}, 5]},
            r"annotation 2 has the image_id 11, which is not in the file \(2 such annotations in all\)",
        ),
        (
            {"annotations": [{"image_id": 10, "category_id": 99}]},
            "annotation 1 has the category_id 99, which is not in",
        ),
        ({"annotations": [{"image_id": [], "category_id": 1}]}, "annotation 1 has the image_id None"),
    ],
)
def test_a_json_that_is_not_of_instances_says_what_it_is(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    write_coco(tmp_path, **changes)
    with pytest.raises(TableError, match=message) as error:
        read_labels(tmp_path)
    assert str(error.value).endswith(".") and "instances_train2014.json" in str(error.value)


def test_a_list_at_the_top_is_no_coco_file(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text('[{"image_id": 1, "category_id": 1, "score": 0.5}]')
    with pytest.raises(TableError, match=r"results.json: not a COCO file, since it has no list of images, annotations"):
        read_labels(tmp_path / "results.json")
    with pytest.raises(TableError, match=r"nowhere.json: not found"):
        read_labels(tmp_path / "nowhere.json")


def test_a_part_of_coco_that_is_not_there_says_which_are(tmp_path: Path) -> None:
    write_coco(tmp_path, "val")
    with pytest.raises(
        TableError, match=r"annotations: no instances_train<year>.json, but there are instances_val2014"
    ):
        read_labels(tmp_path)
    with pytest.raises(TableError, match=r"no instances_test2014.json, but.*no labels of its test images.*part='val'"):
        read_labels(tmp_path, ReadOptions(part="test", year=2014))
    (tmp_path / "annotations" / "instances_val2014.json").rename(tmp_path / "annotations" / "captions_val2014.json")
    with pytest.raises(TableError, match=r"no instances_train<year>.json, but there are captions_val2014.json"):
        read_labels(tmp_path)
    (tmp_path / "annotations" / "captions_val2014.json").unlink()
    with pytest.raises(TableError, match=r"no instances_train<year>.json, but there is no json in it"):
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
        assert f"shows only as difficult are {difficult}: 2." in told(notes)
        assert ("Read from the XML annotations." if xml else "Read from the lists of each class.") in notes
        assert table.place(2) == "trainval.txt line 3"


def test_voc_empty_images_can_be_left_out(tmp_path: Path) -> None:
    write_voc(tmp_path)
    assert len(VOC().read(tmp_path, ReadOptions(empty_images="drop"))[0]) == 3
    # What is said to be absent is no object.
    assert len(VOC().read(tmp_path, ReadOptions(empty_images="drop", difficult="negative"))[0]) == 2


def test_voc_takes_the_only_year_and_asks_where_there_are_two(tmp_path: Path) -> None:
    write_voc(tmp_path)
    assert "Year 2007: the only one in" in told(read_labels(tmp_path)[1])
    home = write_voc(tmp_path, 2012, xml=True)
    with pytest.raises(TableError, match=r"holds the years 2007 and 2012.*year=2012"):
        read_labels(tmp_path)
    assert "trainval.txt: VOC 2012 trainval." in read_labels(tmp_path, ReadOptions(year=2012))[1]
    with pytest.raises(TableError, match=r"there is no year 2010, only 2007 and 2012"):
        read_labels(tmp_path, ReadOptions(year=2010))
    with pytest.raises(TableError, match=r"VOC2012: year=2007 is not this folder"):
        read_labels(home, ReadOptions(year=2007))


@pytest.mark.parametrize("xml", [False, True])
def test_without_its_list_a_part_has_the_order_of_the_first_class(tmp_path: Path, xml: bool) -> None:
    write_voc(tmp_path, part="val", xml=xml, plain=False)
    table, notes = read_labels(tmp_path, ReadOptions(part="val"))
    assert table.images == [f"{image}.jpg" for image in VOC_IMAGES] and table.source == "aeroplane_val.txt"
    assert "aeroplane_val.txt: VOC 2007 val." in notes


def test_voc_half_a_download_says_what_is_missing_or_leaves_it_out(tmp_path: Path) -> None:
    home = write_voc(tmp_path)
    for image in ("000005", "000009"):
        (home / "JPEGImages" / f"{image}.jpg").unlink()
    sentence = r"trainval.txt line 2: image '000005.jpg' not found under .*JPEGImages/ \(1 more like this: 000009.jpg\)"
    with pytest.raises(ImageError, match=sentence):
        read_labels(tmp_path)
    table, notes = read_labels(tmp_path, ReadOptions(skip_missing_images=True))
    assert table.images == ["000012.jpg", "000007.jpg"] and "(--skip-missing-images): 2." in told(notes)
    assert "A list of 4 images; the published one has 5,011, so its masks do not fit." in notes
    with pytest.raises(ImageError, match=r"line 1: image '000012.jpg' not found under .*\(3 more.*Pass images='DIR'"):
        read_labels(tmp_path, ReadOptions(images=str(home / "ImageSets"), skip_missing_images=True))


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("trainval.txt", "", r"trainval.txt: the list is empty"),
        ("trainval.txt", "000012\n\n000005\n000012\n", r"trainval.txt line 4: image '000012' already stands on line 1"),
        ("trainval.txt", "000012 1\n", r"trainval.txt line 1: 1 words are expected, not '000012 1'"),
        (
            "cow_trainval.txt",
            None,
            r"Main: 1 of 20 lists are missing \(cow_trainval.txt\), and there is no folder .*Anno",
        ),
        ("cow_trainval.txt", "000012 2\n", r"cow_trainval.txt line 1: '2' is none of 1 \(there\), -1 \(absent\) and 0"),
        ("cow_trainval.txt", "000012\n", r"cow_trainval.txt line 1: 2 words are expected, not '000012'"),
        (
            "cow_trainval.txt",
            "000012 -1\n999999 1\n",
            r"line 2: image '999999' is not in the list of the part trainval",
        ),
        ("cow_trainval.txt", "000012 -1\n", r"cow_trainval.txt: only 1 of the 4 images of trainval"),
        ("cow_trainval.txt", "000012 -1\n000012 -1\n", r"line 2: image '000012' already stands on line 1"),
        ("cow_trainval.txt", b"\xff\xfe\x00", r"cow_trainval.txt: not text in UTF-8"),
    ],
)
def test_a_damaged_list_says_which_line(tmp_path: Path, file: str, content: str | bytes | None, message: str) -> None:
    lists = write_voc(tmp_path) / "ImageSets" / "Main"
    if content is None:
        (lists / file).unlink()
    else:
        (lists / file).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(TableError, match=message) as error:
        read_labels(tmp_path)
    assert str(error.value).endswith(".")


BOMB = '<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><annotation>&b;</annotation>'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<annotation><object>", r"000007.xml: the XML is broken"),
        ("", r"000007.xml: the XML is broken"),
        (BOMB, r"000007.xml: a document type or entities have no place"),
        (
            "<annotation><object><name>unicorn</name></object></annotation>",
            r"000007.xml: an object is called 'unicorn'",
        ),
        ("<annotation><object/></annotation>", r"000007.xml: an object is called ''"),
        (
            "<annotation><object><name>cow</name><difficult>2</difficult></object></annotation>",
            r"000007.xml: an object is '2' difficult",
        ),
    ],
)
def test_a_damaged_annotation_names_its_file(tmp_path: Path, content: str, message: str) -> None:
    home = write_voc(tmp_path, xml=True)
    (home / "Annotations" / "000007.xml").write_text(content)
    with pytest.raises(TableError, match=message):
        read_labels(tmp_path)
    # A file in another encoding does not get past the look for entities.
    for codec in ("utf-16", "utf-16-le"):
        (home / "Annotations" / "000007.xml").write_bytes(BOMB.encode(codec))
        with pytest.raises(TableError, match=r"000007.xml: not text in UTF-8"):
            read_labels(tmp_path)


def test_an_object_without_the_word_difficult_is_not(tmp_path: Path) -> None:
    home = write_voc(tmp_path, xml=True)
    (home / "Annotations" / "000009.xml").write_text("<annotation><object><name> cow </name></object></annotation>")
    assert state(read_labels(tmp_path)[0], "000009", "cow") == POSITIVE


def test_missing_annotations_are_counted_and_the_test_part_is_explained(tmp_path: Path) -> None:
    home = write_voc(tmp_path, 2012, part="test", xml=True)
    (home / "Annotations" / "000005.xml").unlink()
    message = r"Annotations: 1 of 4 files are missing \(000005.xml\). Only of 2007 did VOC publish"
    with pytest.raises(TableError, match=message):
        read_labels(tmp_path, ReadOptions(part="test"))


def test_a_part_of_voc_that_is_not_there_says_which_are(tmp_path: Path) -> None:
    home = write_voc(tmp_path, part="val")
    sentence = r"no list of the part trainval \(looked for trainval.txt and aeroplane_trainval.txt\); there are val"
    with pytest.raises(TableError, match=sentence):
        read_labels(tmp_path)
    with pytest.raises(TableError, match=r"part='minival': VOC has the parts train, val, trainval, test"):
        read_labels(tmp_path, ReadOptions(part="minival"))
    (home / "ImageSets" / "Main").rename(tmp_path / "elsewhere")
    with pytest.raises(TableError, match=r"Main: there is no such folder.*Unpack"):
        read_labels(tmp_path)


# ------------------------------------------------------------------------------------------------------------ classes


def test_given_classes_keep_their_order_and_unknown_ones_stop(tmp_path: Path) -> None:
    write_coco(tmp_path)
    table, notes = read_labels(tmp_path, classes=["unicorn", "dog", "cat", "Person"])
    assert table.classes == ("unicorn", "dog", "cat", "Person")
    # Nobody looked for unicorns.
    assert table.states().tolist() == [[0, -1, -1, -1], [0, 1, -1, 1], [0, -1, -1, 1]]
    assert "Classes that COCO 2014 train does not annotate, unknown throughout: 'unicorn'." in notes
    with pytest.raises(
        TableError, match=r"instances_train2014.json: the tag 'person' is not among the 2 classes.*ignore"
    ):
        read_labels(tmp_path, classes=["dog", "cat"])
    table, _ = read_labels(tmp_path, ReadOptions(unknown_tags="ignore"), classes=["dog", "cat"])
    assert table.states().tolist() == [[-1, -1], [1, -1], [-1, -1]]
    with pytest.raises(TableError, match="'dog' more than once"):
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
    assert len(table.classes) == 20 and "Classes that no image carries: 'aeroplane'" in told(notes)
    table, notes = read_labels(tmp_path, ReadOptions(min_count=2))
    assert table.classes == ("person",) and "(--min-count): 'car' 1." in told(notes)


# ----------------------------------------------------------------------------------------------------------- the way in


def test_a_folder_that_is_neither_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"annotations/instances_<part><year>.json \(COCO\).*VOC2007.*CSV"):
        read_labels(tmp_path)
    (tmp_path / "VOCdevkit").mkdir()
    with pytest.raises(TableError, match=r"VOCdevkit: there is no folder VOC2007, VOC2012"):
        read_labels(tmp_path / "VOCdevkit")
    with pytest.raises(TableError, match=r"VOC2007: there is no such folder"):
        VOC().read(tmp_path / "VOC2007")
    with pytest.raises(PositivelyError, match=r"nowhere: not found"):
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
    assert len(table) == 2 and "COCO 2017 val." in caplog.text
    write_voc(tmp_path / "VOCdevkit")
    assert po.read(tmp_path / "VOCdevkit", quiet=True, difficult="negative").is_complete
    with pytest.raises(PositivelyError, match="'keep' or 'drop'"):
        po.read(tmp_path / "coco", empty_images="perhaps")


def test_the_command_line_reads_benchmarks(positively: Any, tmp_path: Path) -> None:
    home = write_voc(tmp_path / "VOCdevkit", xml=True)
    done = positively("check", home.parent, "--part", "trainval", "--year", "2007", "--difficult", "positive")
    assert "trainval.txt: VOC 2007 trainval." in done.stdout and "4 images, 20 classes" in done.stdout
    failed = positively("check", home.parent, "--part", "test", check=False)
    assert failed.returncode == 2 and "there are trainval" in failed.stderr and "Traceback" not in failed.stderr
