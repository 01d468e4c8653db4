"""``positively check`` tells everything that is wrong with a table at once, and proposes what can be merged."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from PIL import Image

import positively.tables.build
from positively.cli import main
from positively.errors import TableError, in_python
from positively.labels import LabelTable
from positively.tables.inspection import inspect_labels
from positively.tables.lookalikes import find_lookalikes, nearest_classes
from positively.tables.names import read_aliases
from positively.tables.options import ReadOptions
from wording import assert_names

Capture = pytest.CaptureFixture[str]


def save(folder: Path, *names: str, colour: int | None = None) -> None:
    """Photos of different content, unless a colour is given."""
    for name in names:
        number = sum(name.encode()) if colour is None else colour
        Image.new("RGB", (8, 8), (number % 256, number // 256, 7)).save(folder / name)


def check(capsys: Capture, *words: object) -> tuple[int, str, str]:
    code = main(["check", *map(str, words)])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(tmp_path, *(f"{letter}.png" for letter in "abcdefgh"))
    return tmp_path


def write(folder: Path, rows: Iterable[str], header: str = "image,tags", name: str = "tags.csv") -> Path:
    (folder / name).write_text("\n".join([header, *rows]) + "\n")
    return folder / name


GOOD = ["a.png,cat;dog", "b.png,cat", "c.png,dog", "g.png,dog"]


def test_all_kinds_of_problems_are_told_at_once(folder: Path, capsys: Capture) -> None:
    save(folder, "copy of a.png", colour=sum(b"a.png"))
    save(folder, "copy of b.png", colour=sum(b"b.png"))
    (folder / "broken.png").write_bytes(b"")
    (folder / "text.png").write_text("hello")
    rows = [
        *("a.png,person;dog,,train", "b.png,person,,train", "c.png,person;dog,,train", "d.png,persno,,train"),
        *("e.png,dog;person,dog,train", "f.png,dog,,train", "f.png,dog,,test", "g.png,,,train"),
        *("copy of a.png,dog,person,train", "copy of b.png,person,,test"),
        *("broken.png,dog,,train", "text.png,dog,,train", "gone.png,dog,,train", "lost.png,dog,,test"),
    ]
    code, out, err = check(capsys, write(folder, rows, "image,tags,absent,split"))
    assert code == 2
    stopping = [
        ("tags.csv line 14", "'gone.png'", "1 more", "lost.png", "--images DIR", "--skip-missing-images"),
        ("tags.csv line 8", "'f.png'", "'test'", "'train'", "line 7"),
        ("tags.csv line 6", "'dog'", "'e.png'"),
        ("2 of 11", "'broken.png'", "tags.csv line 12", "zero bytes", "'text.png'", "--skip-broken"),
        ("b.png", "copy of b.png"),
    ]
    for facts in stopping:
        assert_names(err, *facts)
    worth_a_look = [
        ("'a.png' = 'copy of a.png'", "'person'"),
        ("'b.png' = 'copy of b.png'",),
        ("'persno' (1)", "'person' (5)"),
        ("1 of 3", "'persno'"),
        ("1 of 9", "'g.png'"),
    ]
    for facts in worth_a_look:
        assert_names(out, *facts)


def test_several_contradictions_are_counted_and_named(folder: Path, capsys: Capture) -> None:
    rows = ["a.png,cat;dog,dog", "b.png,cat,cat", "c.png,cat;dog,", "b.png,dog,"]
    code, _, err = check(capsys, write(folder, rows, "image,tags,absent"))
    assert code == 2
    assert_names(err, "line 2", "'dog'", "'a.png'", "1 more", "'cat'", "'b.png'")


def test_a_table_without_any_problem_is_in_order(folder: Path, capsys: Capture) -> None:
    code, out, err = check(capsys, write(folder, GOOD))
    assert code == 0 and not err and "unknown" in out
    assert inspect_labels(folder / "tags.csv").problems == []


@pytest.mark.parametrize(
    ("rows", "facts"),
    [
        ([*GOOD, "d.png,bird"], ("1 of 3", "'bird'", "--min-count 2")),
        ([*GOOD, "d.png,"], ("1 of 5", "'d.png'")),
        ([*GOOD, "d.png,cats", "e.png,cats"], ("'cats' (2)", "'cat' (2)")),
    ],
)
def test_what_is_worth_a_look_is_no_error_and_not_in_order(
    folder: Path, capsys: Capture, rows: list[str], facts: tuple[str, ...]
) -> None:
    code, out, err = check(capsys, write(folder, rows))
    assert code == 0 and not err
    assert_names(out, *facts)
    assert inspect_labels(folder / "tags.csv").problems


@pytest.mark.parametrize(
    "rows",
    [["a.png,cat"], ["a.png,cat", "b.png,cat;dog"], ["a.png,cat", "b.png,cat", "c.png,cat"], ["a.png,", "b.png,"]],
    ids=["one photo", "two photos a tag", "every photo", "no tag"],
)
@pytest.mark.parametrize("verb", ["check", "missing", "train"])
def test_a_table_to_learn_nothing_from_is_refused_before_images_are_decoded(
    folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, verb: str, rows: list[str]
) -> None:
    if verb != "check":
        monkeypatch.setattr(positively.tables.build, "verify_images", lambda *_: pytest.fail("decoded"))
    assert main([verb, str(write(folder, rows))]) == 2
    assert_names(capsys.readouterr().err, "tags.csv", "learn" if "," in rows[0][-1] else "photo")
    assert not (folder / "tags.positively").exists()


@pytest.mark.parametrize("fault", ["missing", "broken"])
def test_the_first_problem_with_an_image_names_the_command_that_lists_all(
    folder: Path, capsys: Capture, fault: str
) -> None:
    if fault == "broken":
        (folder / "lost.png").write_bytes(b"")
    table = write(folder, [*GOOD, "lost.png,cat"])
    assert main(["missing", str(table)]) == 2
    assert_names(capsys.readouterr().err, "lost.png", "positively check")
    _, _, err = check(capsys, table)
    assert "lost.png" in err and "positively check" not in err


def test_what_the_options_leave_out_is_told_and_stops_nothing(folder: Path, capsys: Capture) -> None:
    (folder / "broken.png").write_bytes(b"")
    (folder / "classes.txt").write_text("cat\ndog\n")
    table = write(folder, [*GOOD, "broken.png,cat", "gone.png,cat", "d.png,cat;bird"])
    words = ("--skip-missing-images", "--skip-broken", "--unknown-tags", "ignore", "--classes", folder / "classes.txt")
    code, out, err = check(capsys, table, *words)
    assert code == 0 and not err
    (folder / "classes.txt").write_text("cat\ndog\nzebra\n")
    assert_names(check(capsys, table, *words)[1], "1 of 3", "'zebra'")
    assert_names(out, "'gone.png'", "1 of 6", "'bird'")
    assert check(capsys, table, *words[:-2])[0] == 0
    assert check(capsys, table, *words[1:])[0] == 2


def test_a_complete_table_may_have_photos_without_any_tag(folder: Path, capsys: Capture) -> None:
    code, out, _ = check(capsys, write(folder, [*GOOD, "d.png,"]), "--blank", "negative")
    assert code == 0 and "'d.png'" not in out


def test_an_image_of_the_test_table_in_the_table_stops(folder: Path, capsys: Capture) -> None:
    table, test = write(folder, GOOD), write(folder, ["d.png,cat", "e.png,dog"], name="test.csv")
    code, out, _ = check(capsys, table, "--test", test)
    assert code == 0 and f"--test {test}" in out
    save(folder, "copy.png", colour=sum(b"a.png"))
    write(folder, ["copy.png,cat", "e.png,brid"], name="test.csv")
    code, out, err = check(capsys, table, "--test", test)
    assert code == 2
    assert_names(err, f"--test {test}", "copy.png")
    assert_names(out, "test.csv line 3", "'brid'")


def test_a_file_that_cannot_be_read_is_one_sentence(folder: Path, capsys: Capture) -> None:
    (folder / "tags.csv").write_text('image,tags\na.png,"cat\n')
    code, _, err = check(capsys, folder / "tags.csv")
    assert code == 2 and len(err.strip().splitlines()) == 1 and "quot" in err
    with pytest.raises(TableError):
        inspect_labels(folder / "tags.csv")


def test_what_was_found_before_there_was_no_table_is_told_too(folder: Path, capsys: Capture) -> None:
    (folder / "classes.txt").write_text("cat\n")
    code, _, err = check(capsys, write(folder, ["x.png,cat", "y.png,dog"]), "--classes", folder / "classes.txt")
    assert code == 2
    assert_names(err, "'dog'", "'x.png'")


def test_python_reads_options_as_python_writes_them(folder: Path) -> None:
    found = inspect_labels(write(folder, [*GOOD, "gone.png,cat"]))
    (problem,) = found.problems
    assert problem.kind == "missing images" and problem.stops_training
    assert_names(in_python(problem.sentence), "'gone.png'", "images='DIR'", "skip_missing_images=True")
    assert found.table is not None and found.table.hashes is not None and len(found.table) == 4


# -------------------------------------------------------------------------------------------------------- look-alikes


def tagged(tags: dict[str, int], together: bool = False) -> LabelTable:
    """Each tag on as many photos as said, every one on photos of its own, or else all from the same one on."""
    classes, rows = sorted(tags), []
    for name, count in tags.items():
        rows += [[classes.index(name)] for _ in range(count)]
    if together:
        rows = [[classes.index(name) for name, count in tags.items() if i < count] for i in range(max(tags.values()))]
    return LabelTable.from_positives([f"{i}.jpg" for i in range(len(rows))], classes, rows)


@pytest.mark.parametrize(
    "tags",
    [
        {"person": 3, "persno": 1},
        {"person": 30, "persn": 1},
        {"person": 60, "perrson": 3},
        {"elephant": 20, "elefhant": 1},
        {"hot dog": 2, "hot-dog": 1},
        {"T shirt": 3, "tshirt": 2},
        {"dog": 9, "dogs": 8},
        {"bush": 3, "bushes": 2},
        {"city": 3, "cities": 2},
    ],
)
def test_tags_that_are_probably_one_look_alike(tags: dict[str, int]) -> None:
    frequent, rare = tags
    assert find_lookalikes(tagged(tags)) == {rare: frequent}


@pytest.mark.parametrize(
    "tags",
    [
        {"cat": 500, "car": 1},
        {"three": 500, "tree": 1},
        {"house": 500, "mouse": 1},
        {"horse": 500, "house": 40},
        {"light": 500, "night": 1},
        {"1980s": 500, "1990s": 1},
        {"route 661": 500, "route 662": 1},
        {"is": 3, "iss": 3},
        {"person": 2, "persno": 1},
    ],
)
def test_words_that_are_only_near_to_one_another_do_not_drown_the_user(tags: dict[str, int]) -> None:
    assert find_lookalikes(tagged(tags)) == {}


@pytest.mark.parametrize(
    "tags",
    [
        ("Person", "Personen", "Tisch", "Stuhl"),
        ("Stuhl", "Stühle", "Tisch", "Hund"),
        ("Kühlschrank", "Kuehlschrank"),
        ("Straße", "Strasse"),
        ("Café", "Cafe"),
        ("colour", "color"),
        ("theatre", "theater"),
        ("grey cat", "gray cat"),
        ("woman", "women"),
        ("cheval", "chevaux", "chien", "maison"),
        ("gatto", "gatti", "cane", "casa"),
        ("flor", "flores", "casa", "ciudad"),
        ("coração", "corações", "cidade"),
        ("kat", "katten", "hond", "huis"),
    ],
)
def test_one_word_in_two_spellings_or_numbers_is_found(tags: tuple[str, ...]) -> None:
    first, second, *_ = tags
    assert find_lookalikes(tagged({tag: 50 - place for place, tag in enumerate(tags)})) == {second: first}


@pytest.mark.parametrize(
    "tags",
    [
        "plan plane gold golden wood wooden car care farm farmer boot booth tool pool",
        "Fisch Fischer Musik Musiker Tanz Tänzer Küche Kuchen Hund Haus Bau Bauer",
        "porto porta casa caso mela mare città gatto",
    ],
)
def test_different_words_are_not_taken_for_spellings_of_one(tags: str) -> None:
    assert find_lookalikes(tagged(dict.fromkeys(tags.split(), 50))) == {}


def test_tags_on_one_photo_are_two() -> None:
    assert find_lookalikes(tagged({"beach": 50, "bench": 1})) == {"bench": "beach"}
    assert find_lookalikes(tagged({"beach": 50, "bench": 1}, together=True)) == {}


def test_thousands_of_classes_are_compared_at_once() -> None:
    syllables = [consonant + vowel for consonant in "bdfgklmnprst" for vowel in "aeiou"]
    classes = [f"{one}{two} word" for one in syllables for two in syllables]
    table = tagged(dict.fromkeys(classes, 2))
    assert len(classes) > 2000
    assert find_lookalikes(table) == {}


def test_a_tag_near_two_classes_is_nobody_s_alias() -> None:
    classes = ["plane", "plate", "person", "Hot Dog"]
    assert nearest_classes(["plake", "persno", "hotdog", "zebra"], classes) == {"persno": "person", "hotdog": "Hot Dog"}


# ------------------------------------------------------------------------------------------------------------ aliases


def test_the_merges_that_are_proposed_can_be_read_back(folder: Path, capsys: Capture) -> None:
    rows = ["a.png,person", "b.png,person", "c.png,person;hot dog", "d.png,persno;hot dog", 'e.png,"hot, dog"']
    table, out_file = write(folder, rows), folder / "new" / "aliases.csv"
    code, out, _ = check(capsys, table, "--write-aliases", out_file)
    assert code == 0 and f"--aliases {out_file}" in out
    assert read_aliases(out_file) == {"persno": "person"}
    code, out, _ = check(capsys, table, "--aliases", out_file)
    assert "'persno' (" not in out and "'persno' → 'person'" in out


def test_aliases_have_the_delimiter_of_the_table(folder: Path, capsys: Capture) -> None:
    rows = [f"{name}.png;strasse" for name in "abcd"] + ["e.png;strase", "f.png;hund", "g.png;hund"]
    table = write(folder, rows, "image;tags")
    table.write_text(table.read_text(), encoding="utf-8-sig")
    check(capsys, table, "--write-aliases", folder / "aliases.csv")
    assert (folder / "aliases.csv").read_text(encoding="utf-8") == "\ufeffalias;name\nstrase;strasse\n"
    assert read_aliases(folder / "aliases.csv") == {"strase": "strasse"}


def test_aliases_in_use_come_along_into_the_new_file(folder: Path, capsys: Capture) -> None:
    (folder / "old.csv").write_text("alias,name\nhuman,person\n")
    rows = ["a.png,person", "b.png,human", "c.png,person", "d.png,persno"]
    check(capsys, write(folder, rows), "--aliases", folder / "old.csv", "--write-aliases", folder / "new.csv")
    assert read_aliases(folder / "new.csv") == {"human": "person", "persno": "person"}


def test_a_tag_beside_the_given_classes_is_proposed_too(folder: Path, capsys: Capture) -> None:
    (folder / "classes.txt").write_text("person\ndog\n")
    table = write(folder, ["a.png,person;dog", "b.png,persno", "c.png,dog;person", "d.png,dog"])
    words = ("--classes", folder / "classes.txt")
    assert check(capsys, table, *words, "--write-aliases", folder / "aliases.csv")[0] == 2
    assert read_aliases(folder / "aliases.csv") == {"persno": "person"}
    code, out, _ = check(capsys, table, *words, "--aliases", folder / "aliases.csv")
    assert code == 0 and "'persno' → 'person'" in out and "'persno' (" not in out


def test_a_file_that_is_there_is_never_overwritten(
    folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(positively.tables.build, "verify_images", lambda *_: pytest.fail("decoded"))
    (folder / "mine.csv").write_text("precious\n")
    code, _, err = check(capsys, write(folder, GOOD), "--write-aliases", folder / "mine.csv")
    assert code == 2 and "mine.csv" in err
    assert (folder / "mine.csv").read_text() == "precious\n"
    code, _, err = check(capsys, "--write-aliases", folder / "new.csv")
    assert code == 2 and "TABLE" in err


def test_nothing_is_written_where_nothing_looks_alike(folder: Path, capsys: Capture) -> None:
    code, out, _ = check(capsys, write(folder, GOOD), "--write-aliases", folder / "new.csv")
    assert code == 0 and "new.csv" in out and not (folder / "new.csv").exists()


def test_checking_changes_nothing_on_disk(folder: Path, capsys: Capture) -> None:
    table = write(folder, GOOD)
    before = sorted(folder.iterdir())
    check(capsys, table)
    assert sorted(folder.iterdir()) == before
    assert inspect_labels(table, ReadOptions(verify=False)).problems == []
