"""The report of a run: what stands in it, that it needs nothing else, and how it looks in a browser."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

import positively as po
import shapes
from pages import assert_stands_alone, headings, rows_of, text_of
from positively.calibration import CalibratedScores, OutOfSample, calibrate_summary, summarize
from positively.cli import main
from positively.errors import FileError, ImageError, RunError
from positively.labels import POSITIVE
from positively.report.page import render_page
from positively.report.run.contents import read_contents
from positively.report.run.photos import PhotoBook
from positively.report.run.quality import judge, reliability, wilson
from positively.report.run.summary import summary_section
from positively.report.run.writing import run_sections
from positively.runs.card import write_evaluation
from positively.runs.sources import find_root, image_folders
from wording import assert_names, naming

SECTIONS = [
    "At a glance",
    "Missing tags",
    "Quality",
    "Tag by tag",
    "Photos",
    "Tags that occur together",
    "Training",
    "Environment",
]
HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "$x^2$ & 100 %", "緑 " + "long" * 60)


basics = shapes.frozen


@pytest.fixture(scope="session")
def tags(tables):
    """Half of the positive tags, and no negative."""
    return tables[0].with_known_ratio(0.5, 0).positives_only()


@pytest.fixture(scope="session")
def run(place, tags, tables):
    """A run that was trained, evaluated and reported on."""
    made = po.fit(tags, out=str(place / "reported"), quiet=True, **basics(place))
    write_evaluation(made, made.evaluate(tables[1]), table="held/test.csv")
    po.write_report(made)
    return made


@pytest.fixture(scope="session")
def hostile(place, tags):
    """A run whose tags have names that nobody should have, one picture gone and one broken."""
    folder = place / "hostile"
    shutil.copytree(place / "train", folder / "train")
    table = replace(tags, classes=HOSTILE, root=folder)
    made = po.fit(table, out=str(folder / "run"), quiet=True, **basics(place))
    shown = re.findall(r'alt="(train/[^"]*)"', text_of(made))
    (folder / shown[0]).unlink()
    (folder / shown[-1]).write_bytes(b"no picture")
    return made, shown


def test_fit_writes_a_page_with_every_section_that_needs_nothing_else(run):
    page = text_of(run)
    assert headings(page) == SECTIONS
    assert page.count("<svg") == 8 and page.count("data:image/") >= 24
    assert_stands_alone(page)
    assert len(page) < 3_000_000
    assert "200" in page and "colors.onnx at 24 px" in page and "closed-form" in page
    assert re.fullmatch(r"less than a second|.*\d (h|min|s)", dict(rows_of(page, "Training"))["Time"])
    assert (run.path / "report.html").stat().st_size < 3_000_000


def test_the_table_of_tags_counts_what_the_table_holds_and_what_was_measured(run, tags, tables):
    rows = {cells[0]: cells for cells in rows_of(text_of(run), "All tags")}
    assert set(rows) == set(tags.classes)
    evaluation = run.evaluate(tables[1])
    for name, known in zip(tags.classes, tags.counts(po.LabelState.POSITIVE), strict=True):
        cells = rows[name]
        assert cells[1] == f"{known:,}" and cells[9].endswith(f" of {known}")
        assert int(cells[1]) <= int(cells[2]) <= int(cells[3]), "known, expected, at most"
        assert cells[-1] == f"{100 * evaluation.average_precision[name]:.1f}"
    assert "Measured on test.csv" in text_of(run)


def test_an_evaluation_says_with_which_thresholds_in_file_card_and_page(run, tables, tmp_path):
    copy = shutil.copytree(run.path, tmp_path / "run")
    for _ in range(2):
        strict = po.Run(copy, min_precision=0.8, head="linear")
        write_evaluation(strict, strict.evaluate(tables[1]), table="held/test.csv", split="test")
    told = json.loads(strict.folder.evaluation.read_text())
    assert told["min_precision"] == 0.8 and told["head"] == "linear"
    card = strict.folder.verified(strict.folder.card).read_text()
    assert card.count("## Measured") == 1 and card.count("## Expected") == 1
    assert_names(card, "test.csv", "80 %", "linear", f"{100 * told['mean_average_precision']:.1f}")
    po.write_report(copy)
    assert "80 %" in rows_of(text_of(strict), "Measured on test.csv")[0][0]
    assert "80 %" not in rows_of(text_of(run), "Measured on test.csv")[0][0]


def test_an_evaluation_does_not_replace_another_file(run, tables, tmp_path):
    mine = tmp_path / "mine.json"
    mine.write_text("{}")
    evaluation = run.evaluate(tables[1])
    with pytest.raises(FileError, match="mine"):
        write_evaluation(run, evaluation, mine, table="test.csv")
    for _ in range(2):
        write_evaluation(run, evaluation, tmp_path / "new.json", table="test.csv")


def test_tags_that_were_learned_badly_are_named_at_the_top(run):
    contents = read_contents(run.path)
    quality = judge(contents.calibrated, contents.thresholds)
    first = contents.classes[0]
    bad = replace(quality, found=np.where(np.arange(len(contents.classes)) == 0, 0.0, quality.known))
    text = summary_section(contents, bad).text
    assert f"{first}: 0 of {quality.known[0]:.0f}" in text and contents.classes[1] not in text
    assert first not in summary_section(contents, replace(quality, found=quality.known)).text


def test_photos_are_named_without_the_folders_they_share(tmp_path):
    book = PhotoBook(None, ["/home/me/photos/a/1.jpg", "/home/me/photos/b/2.jpg"])
    assert book.photo("/home/me/photos/a/1.jpg", "cat").name == "a/1.jpg"
    assert PhotoBook(None, ["a/1.jpg", "a/2.jpg"]).photo("a/1.jpg", "cat").name == "a/1.jpg"


def test_the_page_has_one_answer_to_how_many_tags_are_missing(run, tags):
    calibrated = read_contents(run.path)
    shifted = replace(calibrated.calibrated.calibration, positives=3 * calibrated.calibrated.calibration.positives)
    contents = replace(calibrated, calibrated=replace(calibrated.calibrated, calibration=shifted))
    sections = {section.heading: section for section in run_sections(contents, PhotoBook(None))}
    true = next(tile for tile in sections["At a glance"].tiles if "true tags" in tile.label and "≈" in tile.value)
    missing = re.search(r"About ([\d,]+) tags", sections["Missing tags"].text).group(1)
    known = tags.total(POSITIVE)
    expected = sum(float(row[2].replace(",", "")) for row in sections["Tag by tag"].tables[0].rows)
    assert float(true.value.removeprefix("≈ ").replace(",", "")) - known == pytest.approx(
        float(missing.replace(",", "")), abs=1.5
    )
    assert expected - known == pytest.approx(float(missing.replace(",", "")), abs=len(tags.classes))


def test_a_report_written_twice_is_the_same_to_the_byte(run, tmp_path):
    pages = [po.write_report(run, tmp_path / name).read_bytes() for name in ("one.html", "two.html")]
    assert pages[0] == pages[1]


def test_names_of_tags_are_text_wherever_they_stand(hostile):
    page = text_of(hostile[0])
    assert headings(page) == SECTIONS
    assert "<script>alert" not in page and "<img src=x" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page and "$x^2$ &amp; 100 %" in page
    assert_stands_alone(page)


def test_pictures_that_are_gone_or_broken_leave_a_sentence(hostile):
    made, (gone, *_, broken) = hostile
    page = po.write_report(made).read_text(encoding="utf-8")
    assert "not found" in page
    assert f'alt="{gone}"' not in page and f'alt="{broken}"' not in page
    assert page.count("cannot be shown") >= 2
    assert headings(page) == SECTIONS


def test_photos_are_found_where_they_were_or_where_they_are_now(run, place, tmp_path, monkeypatch, capsys):
    moved = tmp_path / "moved" / "runs" / "mine"
    shutil.copytree(run.path, moved)
    contents = read_contents(moved)
    # A run that was made by `--images photos` and moved together with the photos; the command is given elsewhere.
    shutil.copytree(place / "train", tmp_path / "moved" / "photos" / "train")
    config = {**contents.config, "images": "photos", "table": None}
    assert find_root(contents.images, image_folders(moved, config)) == tmp_path / "moved" / "photos"
    monkeypatch.chdir(tmp_path / "moved")
    assert find_root(contents.images, image_folders(moved, config)) == Path("photos")
    # COCO keeps its images below the folder that is named.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "coco").mkdir()
    shutil.copytree(place / "train", tmp_path / "coco" / "train2017" / "train")
    nested = {"table": str(tmp_path / "coco"), "images": None}
    assert find_root(contents.images, image_folders(moved, nested)) == tmp_path / "coco" / "train2017"
    # And if nobody knows, one may say it.
    assert main(["report", str(moved), "--images", str(tmp_path / "moved" / "photos")]) == 0
    assert "report.html" in capsys.readouterr().out and "data:image/" in (moved / "report.html").read_text()
    with pytest.raises(ImageError, match="images"):
        po.write_report(moved, images=tmp_path / "runs")


def test_somebody_elses_page_is_left_alone(run, tmp_path, capsys):
    page = tmp_path / "report.html"
    page.write_text("<html>mine</html>")
    with pytest.raises(FileError, match=naming("report.html", "out=")):
        po.write_report(run, page)
    assert page.read_text() == "<html>mine</html>"
    assert main(["report", str(tmp_path)]) == 2 and "run" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["images.csv", "out-of-sample.safetensors", "evaluation.json", "environment.json"])
def test_a_damaged_file_of_the_run_is_named(run, tmp_path, name):
    shutil.copytree(run.path, tmp_path / "run")
    (tmp_path / "run" / name).write_text("{" if name == "environment.json" else "{}")
    with pytest.raises(RunError, match=name):
        po.write_report(tmp_path / "run")


def test_a_report_that_cannot_be_written_is_a_warning_and_the_run_is_fine(place, tags, caplog):
    made = po.fit(tags, out=str(place / "obstructed"), quiet=True, **basics(place))
    (made.path / "report.html").unlink()
    (made.path / "report.html").mkdir()
    with caplog.at_level("INFO", logger="positively"):
        again = po.fit(tags, out=str(made.path), resume="auto", **basics(place))
    assert "report" in caplog.text and "WARNING" in caplog.text
    assert again.predict(str(tags.paths[0]))


def test_a_complete_table_is_counted(place, tables):
    page = text_of(po.fit(tables[0], out=str(place / "complete"), quiet=True, **basics(place)))
    assert "Missing tags" not in headings(page) and "<dt>true tags</dt>" not in page


def test_a_run_that_learned_nothing_says_so_first(run):
    contents = read_contents(run.path)
    calibration = replace(contents.calibrated.calibration, learned=np.zeros(4, dtype=bool))
    nothing = replace(
        contents,
        calibrated=replace(contents.calibrated, calibration=calibration),
        thresholds=np.full(4, np.inf),
        out_of_sample=None,
    )
    sections = run_sections(nothing, PhotoBook(None))
    assert [section.heading for section in sections][:2] == ["At a glance", "Tag by tag"]
    assert "three photos" in sections[0].text and "4 of 4 tags" in sections[1].text


def test_one_tag_makes_a_page_too(place, tags):
    table = tags.with_classes(tags.classes[:1])
    page = text_of(po.fit(table, out=str(place / "single-tag"), quiet=True, **basics(place)))
    assert headings(page) == [name for name in SECTIONS if name != "Tags that occur together"]
    assert len(rows_of(page, "All tags")) == 1


def test_a_thousand_tags_make_a_page_that_can_be_read(run):
    contents = read_contents(run.path)
    columns = np.arange(1000) % 4
    calibration = contents.calibrated.calibration.select(columns)
    calibration.learned[900:] = False
    found = CalibratedScores(calibration, contents.calibrated.summary.select(columns))
    thousand = replace(
        contents,
        model={**contents.model, "classes": [f"tag {index}" for index in range(1000)]},
        calibrated=found,
        thresholds=np.where(calibration.learned, contents.thresholds[columns], np.inf),
        out_of_sample=OutOfSample(contents.out_of_sample.scores[:, columns], found),
        states=contents.states[:, columns],
        evaluation=None,
    )
    page = render_page(run_sections(thousand, PhotoBook(contents.root)), "A thousand tags")
    assert headings(page) == SECTIONS
    assert len(rows_of(page, "All tags")) == 1000 and len(page) < 3_000_000
    assert_names(page, "100 of 1,000 tags", "24 most frequent")


def test_what_was_judged_on_a_part_of_the_photos_is_scaled_up_and_said(run):
    contents = read_contents(run.path)
    twice = replace(contents, parts=[*contents.parts, *["holdout"] * len(contents.parts)])
    (section,) = [part for part in run_sections(twice, PhotoBook(None)) if part.heading == "Tag by tag"]
    assert "scaled" in section.text
    (plain,) = [part for part in run_sections(contents, PhotoBook(None)) if part.heading == "Tag by tag"]
    expected = [[int(row[2]) for row in part.tables[0].rows] for part in (section, plain)]
    np.testing.assert_allclose(expected[0], 2 * np.array(expected[1]), atol=1)


# What is counted and expected


def test_intervals_are_wilsons():
    for hits, trials in ((0, 5), (3, 10), (10, 10), (80, 200)):
        exact = binomtest(hits, trials).proportion_ci(method="wilson")
        lower, upper = wilson(hits, trials)
        assert (float(lower), float(upper)) == pytest.approx((exact.low, exact.high), abs=1e-4)
    assert [float(limit) for limit in wilson(0, 0)] == [0.0, 1.0]


@pytest.fixture(scope="session")
def calibrated():
    """Scores of 3,000 photos whose tags are known with probability 0.4, and the hidden truth."""
    generator = np.random.default_rng(0)
    truth = generator.random((3000, 6)) < np.linspace(0.05, 0.4, 6)
    scores = generator.normal(3.0 * truth)
    known = truth & (generator.random(truth.shape) < 0.4)
    summary = summarize(scores, known.astype(np.int8), leave_one_out=False)
    return CalibratedScores(calibrate_summary(summary, frequency_asinh_scale=np.inf), summary), scores, truth


def test_recall_that_is_counted_and_precision_that_is_expected_meet_the_truth(calibrated):
    found, scores, truth = calibrated
    quality = judge(found, found.thresholds())
    given = found.calibration.probabilities(scores) >= quality.thresholds
    precision = (given & truth).sum(axis=0) / given.sum(axis=0)
    recall = (given & truth).sum(axis=0) / truth.sum(axis=0)
    np.testing.assert_allclose(quality.found / quality.known, recall, atol=0.1)
    np.testing.assert_allclose(quality.precision, precision, atol=0.15)
    lower, upper = quality.precision_range
    assert (lower <= precision).all() and (precision <= upper + 0.03).all()
    assert quality.overall_precision == pytest.approx((given & truth).sum() / given.sum(), abs=0.05)
    assert quality.overall_recall == pytest.approx((given & truth).sum() / truth.sum(), abs=0.05)


def test_as_many_tags_are_known_as_probabilities_expect_and_false_ones_are_found_out(calibrated):
    found, *_ = calibrated

    def off(scores):
        bins = reliability(scores)
        lower, upper = wilson(bins.known, bins.pairs)
        return int(((bins.expected < lower) | (bins.expected > upper)).sum()), len(bins.known)

    wrong, bins = off(found)
    assert bins == 12 and wrong <= 3
    steeper = replace(found.calibration, slope=2 * found.calibration.slope)
    assert off(replace(found, calibration=steeper))[0] >= 6


# In a browser

A4 = 718
"""Pixels between the margins that browsers leave on A4: 210 − 2 · 10 mm."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["plain", "hostile"])
def test_the_page_in_a_browser(browser, run, hostile, kind, scheme):
    from axe_playwright_python.sync_playwright import Axe

    made = run if kind == "plain" else hostile[0]
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    page = context.new_page()
    requests, problems = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append("a dialog"))
    page.goto(f"file://{made.path}/report.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390, "the page is wider than a phone"
    assert not [url for url in requests if not url.startswith(("file:", "data:"))]
    assert len([url for url in requests if url.startswith("file:")]) == 1
    assert not problems
    assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
    found = Axe().run(page).response["violations"]
    assert not [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]
    context.close()


def test_the_table_sorts_by_a_click_and_reads_without_a_script(browser, run):
    address = f"file://{run.path}/report.html"
    page = browser.new_page()
    page.goto(address)
    column = page.locator("table.sortable")
    known = "[...document.querySelectorAll('table.sortable tbody tr')].map(row => +row.cells[1].textContent)"
    assert page.evaluate(known) == sorted(page.evaluate(known), reverse=True)
    column.get_by_role("button", name="known", exact=True).click()
    column.get_by_role("button", name="known", exact=True).click()
    assert page.evaluate(known) == sorted(page.evaluate(known))
    assert column.locator("th[aria-sort=ascending]").inner_text().startswith("known")
    page.close()
    plain = browser.new_context(java_script_enabled=False).new_page()
    plain.goto(address)
    assert plain.get_by_text("known tags found again").is_visible() and plain.get_by_role("button").count() == 0
    plain.context.close()


@pytest.mark.parametrize("kind", ["plain", "hostile"])
def test_what_is_printed_fits_on_the_page(browser, run, hostile, kind):
    made = run if kind == "plain" else hostile[0]
    page = browser.new_page(viewport={"width": A4, "height": 1000})
    page.emulate_media(media="print")
    page.goto(f"file://{made.path}/report.html")
    tables = page.evaluate("[...document.querySelectorAll('table')].map(table => table.getBoundingClientRect().right)")
    assert tables and max(tables) <= A4
    assert page.evaluate("document.documentElement.scrollWidth") <= A4
    hidden = "[...document.querySelectorAll('.scroll')].filter(part => getComputedStyle(part).overflow !== 'visible')"
    assert page.evaluate(f"{hidden}.length") == 0  # paper does not scroll
    page.close()
