"""The command line as a person types it: good input, bad input, and what it leaves behind."""

import csv
import importlib
import json
import re
import shlex
import shutil

import pytest
import yaml

from conftest import TINY, options
from positively.cli import VERBS, main
from positively.cli.paths import split_run
from positively.errors import ConfigError
from positively.options import helps_of
from wording import assert_names

WORDS = options(TINY)


@pytest.fixture(scope="module")
def run(scenes, tmp_path_factory):
    out = tmp_path_factory.mktemp("cli") / "run"
    assert main(["train", str(scenes / "train.csv"), *WORDS, "--out", str(out)]) == 0
    return out


def parser_of(verb):
    return importlib.import_module(f"positively.cli.{verb}").parser()


def shown_help(*words, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([*words])
    assert stopped.value.code == 0
    return capsys.readouterr().out


def test_without_a_verb_the_first_commands_are_shown(capsys):
    assert main([]) == 0
    printed = capsys.readouterr().out
    assert all(f"positively {verb} tags.csv" in printed for verb in ("check", "missing", "train"))
    assert main(["--help"]) == 0
    listed = re.findall(r"^  (\w+) ", capsys.readouterr().out, flags=re.MULTILINE)
    assert main(["--verbose"]) == 0 and main(["--verbose", "--version"]) == 0
    assert "usage: positively check" in shown_help("help", "check", capsys=capsys)
    assert listed == list(VERBS) and listed[:4] == ["check", "missing", "review", "train"]


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_fits_a_screen_and_has_no_jargon(verb, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    short, full = (shown_help(verb, word, capsys=capsys) for word in ("--help", "--help-all"))
    made = parser_of(verb)
    assert len(short.splitlines()) <= 60 and f"usage: positively {verb}" in short
    assert all(len(line) <= 80 for line in (short + full).splitlines())
    assert made.examples and all(example in short for example in made.examples)
    if len(made.options) > 10:
        assert 8 <= len(made.common) <= 15 and set(made.common) <= set(made.options)
    for jargon in ("Annotated", "Literal", "Optional", "type:", "None", "<class", "Range"):
        assert jargon not in short + full


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_has_a_group_and_a_sentence(verb, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "100")
    full, made = shown_help(verb, "--help-all", capsys=capsys), parser_of(verb)
    for option in made.options.values():
        flag = option.flag if option.default is not True else f"--no-{option.flag[2:]}"
        assert re.search(rf"^  {flag}\b", full, flags=re.MULTILINE), option
        assert (option.help or helps_of(option.group)[option.name]).endswith("."), option


@pytest.mark.parametrize(
    ("verb", "words", "name", "value"),
    [
        ("train", "t.csv --skip_broken --lr 1e-3", "skip_broken", True),
        ("train", "t.csv --skip-broken=false", "skip_broken", False),
        ("train", "--skip-broken true t.csv", "skip_broken", True),
        ("train", "--skip-broken t.csv", "table", "t.csv"),
        ("train", "t.csv --no-verify", "verify", False),
        ("train", "t.csv --no-refit", "refit", False),
        ("train", "t.csv --refit null", "refit", None),
        ("train", "t.csv --min_count=3", "min_count", 3),
        ("train", "t.csv --devices 2", "devices", 2),
        ("train", "t.csv --devices auto", "devices", "auto"),
        ("train", "t.csv --lr 1e-3", "lr", 0.001),
        ("train", "t.csv --backbone 123", "backbone", "123"),
        ("train", "t.csv --embeddings a.npy b.npy", "embeddings", ["a.npy", "b.npy"]),
        ("train", "t.csv --method-options.gamma 0.55", "method_options", {"gamma": 0.55}),
        ("train", "t.csv --method-options.a=1 --method_options.b x", "method_options", {"a": 1, "b": "x"}),
        ("train", "t.csv --head-options.layers [1,2]", "head_options", {"layers": [1, 2]}),
        ("train", "t.csv --method-options '{a: null}'", "method_options", {"a": None}),
        ("review", "t.csv --no-open", "open", False),
        ("review", "--no-open -- -t.csv", "table", "-t.csv"),
        ("predict", "run a.jpg --top 2 b.jpg -", "image", ["run", "a.jpg", "b.jpg", "-"]),
        ("evaluate", "t.csv", "table", "t.csv"),
        ("evaluate", "run t.csv", "run", "run"),
        ("report", "", "run", None),
        ("missing", "--format parquet", "table", None),
        ("bench", "--ratios 0.1 0.5", "ratios", [0.1, 0.5]),
    ],
)
def test_options_are_read_as_typed(verb, words, name, value):
    assert getattr(parser_of(verb).parse(shlex.split(words)), name) == value


@pytest.mark.parametrize(
    ("verb", "words", "name", "value"),
    [
        ("missing", "t.csv --at-least 0.5", "min_probability", 0.5),
        ("missing", "t.csv --features folder", "cache", "folder"),
        ("missing", "t.csv --epochs 3", "epochs", 3),
        ("train", "t.csv --precision 32-true", "dtype", "float32"),
        ("train", "t.csv --options.gamma=1", "method_options", {"gamma": 1}),
        ("train", "t.csv --skip-missing", "skip_missing_images", True),
        ("predict", "run --precision 0.8", "min_precision", 0.8),
        ("export", "run --fold_cuts", "fold_thresholds", True),
    ],
)
def test_old_spellings_work_with_a_hint(verb, words, name, value, caplog):
    assert getattr(parser_of(verb).parse(shlex.split(words)), name) == value
    assert words.split()[1].split("=")[0].split(".")[0] in caplog.text


def test_a_configuration_file_has_options_of_today_and_of_earlier(tmp_path):
    (tmp_path / "c.yaml").write_text("depth: tail\nprecision: 16-mixed\nlr: 1e-4\nmethod_options: {gamma: 0.5}\n")
    values = parser_of("missing").parse(["tags.csv", "--config", str(tmp_path / "c.yaml")])
    assert (values.depth, values.dtype, values.lr, values.method_options) == ("tail", "float16", 1e-4, {"gamma": 0.5})
    for wrong in ("dept: tail", "lr: -1", "just text", "a: [", "depth: 3", "1: 2", "no: 2"):
        (tmp_path / "c.yaml").write_text(wrong)
        with pytest.raises(ConfigError, match=re.escape("c.yaml")):
            parser_of("missing").parse(["tags.csv", "--config", str(tmp_path / "c.yaml")])


def test_a_recipe_in_a_configuration_file_is_the_same_as_a_word(tmp_path):
    (tmp_path / "c.yaml").write_text("recipe: voc\nepochs: 2\n")
    values = parser_of("train").parse(["t.csv", "--config", str(tmp_path / "c.yaml")])
    assert vars(values) == vars(parser_of("train").parse(["t.csv", "--recipe", "voc", "--epochs", "2"])) | {
        "config": str(tmp_path / "c.yaml")
    }


def test_the_configuration_of_a_run_does_not_move_other_verbs_into_its_folder(run):
    words = ["tags.csv", "--config", str(run / "config.yaml")]
    assert parser_of("missing").parse(words).out is parser_of("review").parse(words).out is None
    assert parser_of("train").parse(words).out == str(run)


def test_training_says_what_it_understood_and_what_it_chose(scenes, tmp_path, capsys):
    assert main(["train", str(scenes / "train.csv"), *WORDS, "--out", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().err
    assert_names(printed, "32 images", "10 classes", "unknown", tmp_path / "run")


def test_configuration_comes_from_yaml_and_words_override_it(tmp_path):
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump({**TINY, "epochs": 7, "method_options": {"gamma": 0.1}}))
    words = ["tags.csv", "--config", str(tmp_path / "recipe.yaml"), "--epochs", "3", "--method-options.alpha", "2"]
    values = parser_of("train").parse(words)
    assert values.epochs == 3 and values.batch_size == 8 and values.method_options == {"gamma": 0.1, "alpha": 2}


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (["trian"], ["'trian'"]),
        (["train"], ["TABLE"]),
        (["TABLE"], ["positively check", "train.csv"]),
        (["check", "my", "table.csv"], ["table.csv", "quotes"]),
        (["missing"], ["table", "run"]),
        (["train", "none.csv"], ["none.csv"]),
        (["train", "TABLE", "--epoch", "3"], ["--epoch", "--epochs?"]),
        (["train", "TABLE", "--skip-brokn"], ["--skip-broken?"]),
        (["train", "TABLE", "--no-verify=false"], ["--no-verify", "value"]),
        (["report", "TABLE"], ["train.csv", "file"]),
        (["train", "TABLE", "--zero", "maybe"], ["--zero", "'unknown'", "'negative'", "'maybe'"]),
        (["train", "TABLE", "--epochs", "many"], ["--epochs", "whole number", "'many'"]),
        (["train", "TABLE", "--config", "none.yaml"], ["none.yaml"]),
        (["train", "TABLE", "--devices", "0"], ["--devices", "'auto'", "0"]),
        (["train", "TABLE", "--backbone", "resnet5o", "--weights", "none", "--depth", "finetune"], ["resnet50"]),
        (["train", "TABLE", "--images", "none"], ["none"]),
        (["train", "TABLE", *WORDS, "--method", "bce"], ["--blank negative"]),
        (["evaluate", "none", "TABLE"], ["run folder", "none"]),
        (["predict", "none", "a.jpg"], ["run folder", "none"]),
        (["check", "--method", "pumlc"], ["'pumlc'", "pu-mlc"]),
    ],
)
def test_mistakes_are_one_sentence_and_exit_2(words, facts, scenes, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([str(scenes / "train.csv") if word == "TABLE" else word for word in words]) == 2
    shown = capsys.readouterr().err
    assert "Traceback" not in shown
    assert_names(shown.strip().splitlines()[-1], *facts)


def test_weights_that_cannot_be_fetched_name_the_ways_out(scenes, positively, tmp_path):
    said = ("train", scenes / "train.csv", "--out", tmp_path / "run", "--backbone", "resnet18")
    failed = positively(*said, check=False)
    assert failed.returncode == 2 and "Traceback" not in failed.stderr
    for way in ("--weights FILE", "HF_HOME", "--weights none"):
        assert way in failed.stderr


def test_debug_shows_the_traceback(tmp_path):
    from positively.errors import PositivelyError

    with pytest.raises(PositivelyError):
        main(["train", str(tmp_path / "none.csv"), "--debug"])


def test_evaluation_is_printed_and_kept(run, scenes, capsys):
    assert main(["evaluate", str(run), str(scenes / "test.csv"), "--blank", "negative"]) == 0
    shown = capsys.readouterr().out
    kept = json.loads((run / "evaluation.json").read_text())
    shares = (kept["f1"]["overall_precision"], kept["f1"]["overall_recall"])
    assert_names(shown.strip().splitlines()[0], "mAP", *(f"{100 * share:.0f} %" for share in shares))
    assert kept["images"] == 24 and 0 < kept["mean_average_precision"] < 1


def test_evaluation_of_a_bare_tag_list_is_refused_with_the_fix(run, scenes, capsys):
    assert main(["evaluate", str(run), str(scenes / "test.csv")]) == 2
    assert_names(capsys.readouterr().err, "test.csv", "--blank negative")


def test_evaluation_names_what_is_wrong_before_it_scores_an_image(run, scenes, tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    assert main(["evaluate", str(run)]) == 2
    assert "table" in capsys.readouterr().err
    words = [str(run), str(scenes / "test.csv"), "--blank", "negative", "--out", str(tmp_path / "notes.txt")]
    assert main(["evaluate", *words]) == 2
    assert "notes.txt" in capsys.readouterr().err and (tmp_path / "notes.txt").read_text() == "mine"


def test_evaluation_ignores_a_tag_that_the_run_does_not_know_and_says_so(run, scenes, tmp_path, capsys):
    rows = (scenes / "test.csv").read_text().splitlines()
    rows = [rows[0], *(f"{scenes}/{row}" for row in rows[1:])]
    (tmp_path / "test.csv").write_text("\n".join([*rows[:-1], f"{rows[-1]};thre"]))
    assert main(["evaluate", str(run), str(tmp_path / "test.csv"), "--blank", "negative"]) == 0
    assert "'thre'" in capsys.readouterr().err


def test_evaluation_on_training_images_is_refused(run, scenes, capsys):
    assert main(["evaluate", str(run), str(scenes / "train.csv"), "--blank", "negative"]) == 2
    assert "content" in capsys.readouterr().err


def test_without_a_run_the_latest_of_the_folder_is_used(run, scenes, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["predict", str(scenes / "test")]) == 2 and "run" in capsys.readouterr().err
    (tmp_path / "tags.positively" / "runs").mkdir(parents=True)
    shutil.copytree(run, tmp_path / "tags.positively" / "runs" / "mine")
    for words in (
        ["predict", str(scenes / "test")],
        ["evaluate", str(scenes / "test.csv"), "--blank", "negative"],
        ["report"],
    ):
        assert main(words) == 0
        assert "mine" in capsys.readouterr().err
    for words in (["report", "tags.positively"], ["predict", "tags.positively", str(scenes / "test")]):
        assert main(words) == 0
        assert "mine" in capsys.readouterr().err
    (tmp_path / "elsewhere").mkdir()
    shutil.copytree(scenes / "test", tmp_path / "photos")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["report"]) == 2 and main(["predict", str(tmp_path / "photos")]) == 0
    assert "mine" in capsys.readouterr().err


def test_the_first_word_of_predict_is_a_run_if_it_can_be_one(run, tmp_path):
    (tmp_path / "photos").mkdir()
    photos, gone = str(tmp_path / "photos"), str(tmp_path / "gone")
    assert split_run([str(run), photos]) == (str(run), [photos])
    (tmp_path / "photos" / "config.json").touch()  # of another program
    assert split_run([photos]) == (None, [photos]) and split_run(["-"]) == (None, ["-"]) and split_run([]) == (None, [])
    for places in ([photos, str(run)], [str(run), photos, str(run)]):
        with pytest.raises(ConfigError, match=re.escape(str(run))):
            split_run(places)
    assert split_run([gone, photos]) == (gone, [photos]) and split_run([f"{gone}.jpg"]) == (None, [f"{gone}.jpg"])


def test_prediction_prints_or_writes_tags(run, scenes, tmp_path, capsys):
    folder = str(scenes / "test")
    assert main(["predict", str(run), folder, "--top", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 24 and all(line.count(",") == 1 for line in lines)
    for name in ("tags.csv", "tags.jsonl"):
        assert main(["predict", str(run), folder, "--top", "2", "--out", str(tmp_path / name)]) == 0
    with (tmp_path / "tags.csv").open() as file:
        rows = list(csv.DictReader(file))
    records = [json.loads(line) for line in (tmp_path / "tags.jsonl").read_text().splitlines()]
    assert [row["tags"].split(";") for row in rows] == [list(record["tags"]) for record in records]
    assert main(["predict", str(run), folder, "--out", str(tmp_path / "tags.xlsx")]) == 2
    assert not (tmp_path / "tags.xlsx").exists()


def test_what_predict_writes_can_be_trained_on(run, scenes, tmp_path):
    main(["predict", str(run), str(scenes / "test"), "--top", "2", "--out", str(tmp_path / "tags.csv")])
    words = ["train", str(tmp_path / "tags.csv"), *options(TINY | {"epochs": 1}), "--out", str(tmp_path / "run")]
    assert main(words) == 0


def test_what_was_chosen_is_shown_with_verbose_only(scenes, tmp_path, capsys):
    words = ["train", str(scenes / "train.csv"), *options(TINY | {"epochs": 1})]
    shown = []
    for name, more in (("quiet", []), ("verbose", ["--verbose"])):
        assert main([*words, "--out", str(tmp_path / name), *more]) == 0
        shown.append(capsys.readouterr().err)
    assert all("holdout_pu" not in line for line in shown[0].splitlines() if not line.startswith("epoch "))
    assert len(shown[1].splitlines()) > len(shown[0].splitlines()) and "lr" in shown[1]


def test_a_run_that_learned_nothing_is_no_success(tmp_path, place):
    from PIL import Image

    for number in range(40):
        Image.new("RGB", (32, 32), (99, 99, number % 7)).save(tmp_path / f"{number}.png")
    rows = [f"{number}.png,{'cat' if number in (3, 11, 29) else ''}" for number in range(40)]
    (tmp_path / "tags.csv").write_text("\n".join(["image,tags", *rows]))
    words = [str(tmp_path / "tags.csv"), "--backbone", str(place / "colors.onnx")]
    assert main(["missing", *words]) == 2 and main(["train", *words]) == 2


def test_check_prints_json_for_programs(scenes, tmp_path, capsys):
    assert main(["check", str(scenes / "train.csv"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ready"] and told["table"]["images"] == 32 and told["machine"]["python"]
    (tmp_path / "tags.csv").write_text(f"image,tags\n{scenes}/train/00000.png,one\ngone.png,two\n")
    assert main(["check", str(tmp_path / "tags.csv"), "--json"]) == 2
    problems = {problem["code"]: problem for problem in json.loads(capsys.readouterr().out)["problems"]}
    assert "gone.png" in problems["missing-images"]["sentence"] and problems["missing-images"]["stops_training"]
    (tmp_path / "tags.json").write_text("[]")
    assert main(["check", str(tmp_path / "tags.json"), "--json"]) == 2
    assert "tags.json" in json.loads(capsys.readouterr().out)["problems"][0]["sentence"]


def test_check_looks_without_training(scenes, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["check"]) == 0
    assert "torch" in capsys.readouterr().out
    assert main(["check", str(scenes / "train.csv"), "--test", str(scenes / "test.csv")]) == 0
    assert f"--test {scenes / 'test.csv'}" in capsys.readouterr().out
    assert main(["check", str(scenes / "train.csv"), "--test", str(scenes / "train.csv")]) == 2
    assert "32 images" in capsys.readouterr().err
    assert main(["check", "--method", "pu-mlc"]) == 0
    assert "gamma" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_the_default_run_folder_is_numbered(scenes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(scenes / "train.csv", tmp_path / "tags.csv")
    for _ in range(2):
        assert main(["train", "tags.csv", "--images", str(scenes), *options(TINY | {"epochs": 1})]) == 0
    assert sorted(path.name for path in (tmp_path / "tags.positively" / "runs").iterdir()) == ["pu-mlc", "pu-mlc-2"]
