"""Tables with foreign headers, pair tables and odd names go through every verb that takes a table."""

import csv
import json
import shutil

import numpy as np
import openpyxl
import pytest

import shapes
from conftest import options
from positively.cli import main
from positively.review.store import DecisionStore
from positively.tables.options import ReadOptions
from positively.tables.reading import read_labels
from positively.workspace import Workspace

TRAIN, TEST = 60, 30
PLAIN = ["red", "green", "blue", "yellow"]
ODD = ["Tisch, gedeckt", "Größe: 5 m²", '=1+1 "quoted"', "Äpfel/Birnen 🍎"]


def listed(image, tags):
    return [[image, ";".join(tags)]]


def commas(image, tags):
    return [[image, ", ".join(tags)]]


def pairs(image, tags):
    return [[image, tag] for tag in tags]


def columns(image, tags):
    return [[image, *("x" if tag in tags else "" for tag in PLAIN)]]


# Header; image and tags → rows; tags; how an image is called; ending of the table.
CASES = {
    "German": (["Datei", "Schlagworte"], commas, PLAIN, "{}.png", ".csv"),
    "exiftool": (["SourceFile", "Subject"], commas, PLAIN, "{}.png", ".csv"),
    "mixed": (["photo", "stichworte"], listed, PLAIN, "photos/{}.png", ".csv"),
    "unknown": (["foo", "bar"], listed, ODD, "Ü {} (1) #%.png", ".tsv"),
    "French": (["Fichier", "Mots-clés", "Auteur"], listed, PLAIN, "{}", ".csv"),
    "pairs": (["image", "tag"], pairs, ODD, "{}.png", ".csv"),
    "Spanish pairs": (["Archivo", "Etiqueta"], pairs, ODD, "{}.png", ".csv"),
    "no header": (None, listed, PLAIN, "{}.png", ".csv"),
    "Italian classes": (["Nome file", *PLAIN], columns, PLAIN, "{}.png", ".csv"),
    "Excel": (["Afbeelding", "Trefwoorden"], listed, ODD, "{}.png", ".xlsx"),
    "JSON lines": (["Imagem", "Etiquetas"], listed, PLAIN, "{}.png", ".jsonl"),
}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Pictures of coloured squares, which of the four colours each shows, and a backbone that sees colours."""
    folder = tmp_path_factory.mktemp("pictures")
    shapes.write_backbone(folder / "colors.onnx")
    truths = [shapes.write_shapes(folder, *part).states() == 1 for part in (("train", TRAIN, 0), ("test", TEST, 1))]
    return folder, truths


def write_table(path, rows, header):
    rows = [*([header] if header else []), *rows]
    if path.suffix == ".xlsx":
        book = openpyxl.Workbook()
        for number, row in enumerate(rows, 1):
            for place, text in enumerate(row, 1):
                book.active.cell(number, place, text).data_type = "s"
        book.save(path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(dict(zip(header, row, strict=True)))}\n" for row in rows[1:]))
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ";").writerows(rows)


def write_case(folder, pictures, case):
    """Half of the tags of the training pictures in ``tags.*``, all of the test pictures in ``test.*``."""
    header, rows_of, classes, name, ending = CASES[case]
    source, truths = pictures
    (folder / "photos").mkdir()
    known = truths[0] & (np.random.default_rng(0).random(truths[0].shape) < 0.6)
    known[:, 0] |= truths[0][:, 0]  # a tag that is known everywhere
    for part, states in (("train", known), ("test", truths[1])):
        rows = []
        for number, row in enumerate(states):
            image = name.format(f"{part}{number}")
            file = image.removeprefix("photos/")
            file = file if file.endswith(".png") else f"{file}.png"
            shutil.copy(source / part / f"{number:03d}.png", folder / "photos" / file)
            more = ["unicorn"] if part == "test" and number < 5 else []  # unknown to the run
            made = rows_of(image, [classes[c] for c in np.flatnonzero(row)] + more) or [[image, ""]]
            rows += [[*cells, *["me"] * (len(header or cells) - len(cells))] for cells in made]
        write_table(folder / f"{'tags' if part == 'train' else 'test'}{ending}", rows, header)
    return f"tags{ending}", f"test{ending}", set(classes), int(known.sum())


def read(path):
    return read_labels(path, ReadOptions(images="photos"))[0]


@pytest.mark.parametrize("case", CASES)
def test_every_verb_takes_every_table(case, pictures, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("positively.report.finished.report_training", lambda *given: None)  # its plots take seconds
    tags, test, classes, known = write_case(tmp_path, pictures, case)
    backbone = str(pictures[0] / "colors.onnx")
    network = options({"backbone": backbone, "cache": str(tmp_path / "cache")})

    def run(*words):
        assert main([str(word) for word in words]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    run("check", tags, "--images", "photos", "--test", test)
    table = read(tags)
    assert set(table.classes) == classes and table.total(1) == known and len(table) == TRAIN

    run("missing", tags, "--images", "photos", *network)
    lists = Workspace.of(tags).missing
    again = read(lists / tags)
    assert again.classes == table.classes and (again.states() == table.states()).all()
    run("missing", tags, "--images", "photos", *network, "--accept-above", "0.5")
    assert read(lists / tags).total(1) > known

    row, column = np.argwhere(table.states() == 0)[0].tolist()
    store = DecisionStore(Workspace.of(tags).decisions, table)
    store.add("likeliest", [(table.images[row], table.classes[column], 1)])
    store.close()
    run("review", tags, "--images", "photos", "--export", f"after{tags[4:]}", *network)
    assert read(f"after{tags[4:]}").total(1) == known + 1

    run("embed", tags, "--images", "photos", "--out", "embeddings.npz", *network)
    run("train", tags, "--images", "photos", "--out", "run", *network)
    run("evaluate", "run", test, "--images", "photos", "--blank", "negative")
    scores = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert scores["mean_average_precision"] > 0.5 and "unicorn" not in str(scores)
    run("predict", "run", test, "--images", "photos", "--out", "predicted.jsonl")
    assert len(read("predicted.jsonl")) == TEST
