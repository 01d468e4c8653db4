"""What is read off a folder of bench results: tables, claims, figures, the report."""

import csv
import io
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.stats

from positively.errors import ConfigError, RunError
from positively.labels import NEGATIVE, POSITIVE, LabelTable
from positively.report.figures import INK
from positively.report.page import Picture, Section, write_report
from positively.report.tables import Table
from positively.research.bench import figures
from positively.research.bench.claims import Claim, claims_table, compare, verdict
from positively.research.bench.counts import LabelCounts, Labels, label_counts, rounded_down, table_2
from positively.research.bench.datasets import Dataset
from positively.research.bench.published import RATIOS, TABLE_1, TABLE_2, TABLE_3
from positively.research.bench.results import MEASURES, Cell, Result, spread
from positively.research.bench.rivals import rivals_table
from positively.research.bench.sections import suite_section
from positively.research.bench.suite import read_suite, suite_names
from positively.research.bench.tables import curves, sweep, table_1, table_3
from wording import naming


def result(row, ratio, seed, value, *, noise=0.0, dataset="coco-mini", family="coco", history=()):
    """A result whose seven measures are value, value + 0.01, value + 0.02 …"""
    return Result(
        cell=Cell(dataset, row, "probe", ratio, noise, seed),
        family=family,
        method="pu-mlc",
        options={},
        backbone="net",
        image_size=224,
        chosen={},
        labels={"positives": 10, "negatives": 20, "images": 5000},
        test={measure: value + index / 100 for index, measure in enumerate(MEASURES)},
        history=list(history),
    )


def cells(table, name):
    """Cells of a row under their heads."""
    (row,) = [row for row in table.rows if row[0] == name]
    return dict(zip(table.head[1:], row[1:], strict=True))


FULL = [result("PU-MLC", ratio, seed, 0.4 + ratio / 10 + seed / 50) for ratio in RATIOS for seed in (0, 1)]
FEW = [result("PU-MLC", 0.1, 0, 0.40), result("PU-MLC", 0.1, 1, 0.42), result("PU-MLC", 0.5, 0, 0.50)]


def test_a_cell_is_the_mean_and_the_standard_deviation_of_its_seeds():
    row = cells(table_1(FULL, "coco-mini", "probe"), "PU-MLC")
    assert row["10 %"] == "42.0 ± 1.4"  # 41 and 43: √2 with n − 1 beneath
    assert row["90 %"] == "50.0 ± 1.4"  # 49 and 51
    assert row["Avg. mAP"] == "46.0 ± 1.4"  # 45 and 47: the mean of the nine ratios is 0.5
    assert row["Avg. CF1"] == "48.0 ± 1.4"
    assert row["Avg. OF1 oracle, one threshold"] == "51.0 ± 1.4"


def test_more_seeds_do_not_widen_what_stands_behind_plus_minus():
    # Half the distance between the best and the worst did: from 1.1 deviations to 3 at ten times as many seeds.
    draws = np.random.default_rng(0).normal(0.5, 0.01, 1000)
    assert spread(draws[:10].tolist()).std == pytest.approx(0.01, rel=0.4)
    assert spread(draws.tolist()).std == pytest.approx(0.01, rel=0.1)


def test_the_oracle_is_called_one_threshold_wherever_thresholds_of_each_class_stand_beside_it():
    for table in (table_1(FULL, "coco-mini", "probe"), table_3([result("A", 1.0, 0, 0.6)], "coco-mini", "probe")):
        oracle = [head for head in table.head if "oracle" in head]
        assert len(oracle) == 2 and all("one threshold" in head for head in oracle)
        assert any("per-class" in note and "oracle" in note for note in table.notes)


def test_averages_over_some_ratios_say_so_and_need_seeds_that_have_them_all():
    table = table_1(FEW, "coco-mini", "probe")
    row = cells(table, "PU-MLC")
    assert row["10 %"] == "41.0 ± 1.4"
    assert row["50 %"] == "50.0"  # one seed has no spread
    assert row["Avg. mAP (2 ratios)"] == "45.0"  # seed 0 alone has both
    assert any("over 10 %, 50 % only" in note for note in table.notes)
    paper = cells(table, "PU-MLC (paper)")
    assert paper["Avg. mAP (2 ratios)"] == "78.8"  # (75.7 + 82.0) / 2 = 78.85, a little less in floats
    assert paper["Avg. OF1 oracle, one threshold (2 ratios)"] == "77.4†"


def test_missing_cells_are_dashes():
    results = [*FEW, result("AN", 0.5, 0, 0.3)]
    rows = ["PU-MLC", "AN", "SARB"]
    table = table_1(results, "coco-mini", "probe", rows)
    assert [row[0] for row in table.rows[:3]] == rows
    assert cells(table, "AN")["10 %"] == "–"
    assert cells(table, "AN")["Avg. mAP (2 ratios)"] == "–"
    assert set(cells(table, "SARB").values()) == {"–"}


def test_a_number_that_could_not_be_computed_is_a_dash():
    broken = replace(FEW[0], test={"mAP": float("nan")})
    assert cells(table_1([broken], "coco-mini", "probe"), "PU-MLC")["10 %"] == "–"


def test_a_bench_without_results_is_an_empty_table():
    table = table_1([], "coco-mini", "probe", ["PU-MLC"])
    assert table.rows[0][0] == "PU-MLC"
    assert "No results" in table.notes[0]


def test_a_table_names_how_many_images_were_trained_on_in_one_phrase():
    few = [replace(one, labels={"images": 4990 + 10 * one.cell.seed}) for one in FULL]
    assert table_1(few, "coco-mini", "probe").notes[0] == "Here: net at 224 px on 4,990 to 5,000 training images."
    assert table_1(FULL, "coco-mini", "probe").notes[0] == "Here: net at 224 px on 5,000 training images."


def test_the_papers_rows_stand_under_a_divider_and_are_marked():
    table = table_1(FULL, "coco-mini", "probe")
    (place,) = [index for index, row in enumerate(table.rows) if len(row) == 1]
    assert place == 1 and "As published" in table.rows[place][0]
    assert all(row[0].endswith("(paper)") for row in table.rows[place + 1 :])
    paper = cells(table, "PU-MLC (paper)")
    assert (paper["10 %"], paper["Avg. mAP"], paper["Avg. OF1"]) == ("75.7", "81.2", "–")
    assert paper["Avg. OF1 oracle, one threshold"] == "77.4"
    assert cells(table, "SARB (paper)")["Avg. OF1 at 0.5"] == "76.8"
    assert cells(table, "SST (paper)")["Avg. OF1 at 0.5"] == "–"
    assert any("41 of the 80 epochs" in note for note in table.notes)


def test_a_dataset_of_no_family_has_no_published_rows():
    table = table_1([replace(one, family="") for one in FULL], "coco-mini", "probe")
    assert len(table.rows) == 1


def test_table_3_takes_complete_and_clean_labels_only():
    results = [*FULL, result("PU-MLC", 1.0, 0, 0.6), result("PU-MLC", 1.0, 0, 0.5, noise=0.2)]
    table = table_3(results, "coco-mini", "probe")
    assert list(cells(table, "PU-MLC").values()) == ["60.0", "61.0", "62.0", "63.0", "64.0", "65.0", "66.0"]
    assert list(cells(table, "PU-MLC (paper)").values()) == ["84.2", "–", "–", "–", "–", "79.1", "78.2"]
    assert cells(table, "ML-GCN (paper)")["CF1 at 0.5"] == "78.0"
    voc = [result("PU-MLC", 1.0, 0, 0.9, dataset="voc2007", family="voc")]
    assert len(table_3(voc, "voc2007", "probe").rows) == 1


def test_a_sweep_over_noise_stays_at_the_ratio_that_has_noise():
    noisy = [result("AN", 0.5, 0, 0.45 - noise / 2, noise=noise) for noise in (0.0, 0.2, 0.4)]
    results = [*FEW, *noisy]
    table = sweep(results, "coco-mini", "probe", ["AN", "PU-MLC"], over="noise")
    assert cells(table, "AN") == {"0 %": "45.0", "20 %": "35.0", "40 %": "25.0"}
    assert cells(table, "PU-MLC") == {"0 %": "50.0", "20 %": "–", "40 %": "–"}
    assert "50 % known" in table.title
    over_ratios = sweep(results, "coco-mini", "probe", ["PU-MLC", "AN"], measure="CF1")
    assert cells(over_ratios, "PU-MLC") == {"10 %": "43.0 ± 1.4", "50 %": "52.0"}
    both = [*results, result("AN", 0.1, 0, 0.3, noise=0.2)]
    with pytest.raises(ConfigError, match="10 %, 50 %"):
        sweep(both, "coco-mini", "probe", ["AN"], over="noise")
    with pytest.raises(ConfigError, match="F2"):
        sweep(results, "coco-mini", "probe", ["AN"], measure="F2")


def test_two_results_for_one_cell_are_refused():
    with pytest.raises(RunError, match=naming("PU-MLC", "10 %", "seed 0")):
        table_1([*FEW, FEW[0]], "coco-mini", "probe")


def test_curves_follow_the_histories():
    short = [{"holdout_map": 0.2, "tau": 0.25}]
    long = [{"holdout_map": 0.3, "tau": 0.75}, {"holdout_map": 0.5, "tau": 1.0}]
    results = [result("PU-MLC", 0.1, 0, 0.4, history=short), result("PU-MLC", 0.1, 1, 0.4, history=long)]
    results.append(result("BCE", 0.1, 0, 0.4, history=[{"holdout_map": float("nan")}]))
    assert cells(curves(results), "PU-MLC") == {"epoch 1": "25.0 ± 7.1", "epoch 2": "50.0"}
    assert cells(curves(results), "BCE") == {"epoch 1": "–", "epoch 2": "–"}
    assert cells(curves(results, "tau", percent=False), "PU-MLC")["epoch 1"] == "0.500 ± 0.354"
    with pytest.raises(ConfigError, match="2 settings"):
        curves([*results, result("PU-MLC", 0.5, 0, 0.4)])


def test_tables_go_through_csv_and_markdown_unharmed():
    table = Table('a, "b"', ("", "x | y"), (("<b>*", "1,5"), ("the paper",), ('say "so"', "–")), ("a note",))
    assert [tuple(row) for row in csv.reader(io.StringIO(table.csv()))] == [table.head, *table.rows]
    lines = table.markdown().splitlines()
    assert r"|  | x \| y |" in lines
    assert r"| \<b\>\* | 1,5 |" in lines
    assert "| **the paper** |  |" in lines
    assert "- a note" in lines
    with pytest.raises(ConfigError, match="3 cells under 2"):
        Table("t", ("", "x"), (("a", "b", "c"),))


# Table 2


def test_labels_are_rounded_down_as_the_paper_does():
    for figures_ in TABLE_2:
        assert rounded_down(241_035, figures_.ratio) == figures_.positives
        assert rounded_down(6_381_605, figures_.ratio) == figures_.negatives


def test_counts_of_a_small_table():
    generator = np.random.default_rng(0)
    states = np.where(generator.random((30, 5)) < 0.2, 1, -1)
    states[0] = [1, -1, -1, -1, -1]
    table = LabelTable.from_states([str(i) for i in range(30)], list("abcde"), states, NEGATIVE)
    positives, negatives = int((states == 1).sum()), int((states == -1).sum())
    known = np.random.RandomState(3).random_sample((30, 5)) < 0.5  # the mask, drawn again by hand
    half, whole = label_counts(table, (0.5, 1.0), seed=3)
    assert half.rounded == Labels(positives // 2, negatives // 2)
    assert half.drawn == Labels(int((known & (states == 1)).sum()), int((known & (states == -1)).sum()))
    assert whole.rounded == whole.drawn == Labels(positives, negatives)
    assert whole.drawn.reduction == pytest.approx(negatives / 150)


def test_table_2_names_the_misprint():
    totals = [Labels(rounded_down(241_035, ratio), rounded_down(6_381_605, ratio)) for ratio in (0.1, 0.5, 1.0)]
    counts = [LabelCounts(figures_.ratio, 0, labels, labels) for figures_, labels in zip(TABLE_2, totals, strict=True)]
    table = table_2(counts, "COCO")
    reductions = [row[1:4] for row in table.rows if row[0] == "Reduction"]
    assert reductions[0] == reductions[1] == ("−96.4 %",) * 3
    assert reductions[2] == ("−96.4 %", "−96.6 % (misprint: −96.4 %)", "−96.4 %")
    blocks = [[row for row in table.rows if row[0] == name] for name in ("Positive", "Negative", "Total")]
    assert all(block[0] == block[2] for block in blocks)  # our rounding gives the printed figures
    assert blocks[2][0] == ("Total", "24,103", "120,517", "241,035", "662,263", "3,311,319", "6,622,640")
    assert len([row for row in table_2(counts, "VOC", family="voc").rows if len(row) == 1]) == 2
    assert set(table_2([LabelCounts(0.3, 0, totals[0], totals[0])], "COCO").rows[-1][1:]) == {"–"}


# The paper


@pytest.mark.parametrize("family", ["coco", "voc"])
def test_the_papers_averages_are_the_means_of_its_ratios(family):
    for row in TABLE_1[family]:
        assert np.mean(list(row.by_ratio.values())) == pytest.approx(row.test["mAP"], abs=0.00051), row.name


def test_published_rows_are_fractions_under_the_names_of_our_measures():
    rows = [*TABLE_1["coco"], *TABLE_1["voc"], *TABLE_3]
    assert len(rows) == 21
    for row in rows:
        assert set(row.test) <= set(MEASURES)
        assert all(0.2 < value < 1 for value in [*row.test.values(), *row.by_ratio.values()])
    assert [len(row.by_ratio) for row in rows] == [9] * 16 + [0] * 5


# Claims


def test_a_verdict_is_read_off_the_interval_of_the_paired_differences():
    better, worse = [0.46, 0.48, 0.47], [0.42, 0.45, 0.42]
    holds = verdict(better, worse)
    assert (holds.word, holds.ahead) == ("holds", 3)
    oracle = scipy.stats.ttest_rel(better, worse).confidence_interval(0.95)
    assert holds.interval == pytest.approx((oracle.low, oracle.high))
    assert (
        holds.sentence
        == "47.0 ± 1.0 against 43.0 ± 1.7: +4.00 points, 95 % interval +1.52 to +6.48; ahead in 3 of 3 seeds"
    )
    turned = verdict(worse, better)
    assert (turned.word, turned.ahead) == ("does not hold", 0)
    assert "−4.00 points, 95 % interval −6.48 to −1.52" in turned.sentence
    none = verdict([0.40, 0.44, 0.41], [0.41, 0.42, 0.40])
    assert (none.word, none.ahead) == ("no difference", 2)
    assert "95 % interval −3." in none.sentence and " to +" in none.sentence


def share_called(words, *wanted):
    return sum(word in wanted for word in words) / len(words)


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_without_a_true_difference_a_claim_is_rarely_called_either_way(seeds):
    # The former rule (half spreads) called a third of these at two seeds.
    draws = np.random.default_rng(seeds).normal(0.5, 0.01, (2000, 2, seeds))
    words = [verdict(*trial).word for trial in draws.tolist()]
    assert share_called(words, "holds", "does not hold") < 0.07


def test_more_seeds_make_a_true_difference_surer_not_rarer():
    generator = np.random.default_rng(0)
    shares = []
    for seeds in (2, 3, 5, 10):
        draws = generator.normal([[0.52], [0.50]], 0.01, (500, 2, seeds))  # two deviations apart
        shares.append(share_called([verdict(*trial).word for trial in draws.tolist()], "holds"))
    assert all(more > fewer + 0.05 for fewer, more in pairwise(shares))
    assert shares[-1] > 0.95


def test_what_a_seed_does_to_both_rows_does_not_hide_a_small_difference():
    common = [0.40, 0.50, 0.45]  # a lucky mask helps everybody
    assert verdict([0.410, 0.511, 0.459], common).word == "holds"
    assert verdict([value + 0.01 for value in common], common).word == "holds"


def test_seeds_that_change_nothing_are_one_measurement():
    repeated = verdict([0.5, 0.5, 0.5], [0.4, 0.4, 0.4])
    assert repeated.word == "undecided (one seed)"
    assert "+10.00 points in each of 3" in repeated.sentence and "interval" not in repeated.sentence


def test_equal_rows_are_no_difference():
    for row in ([0.4, 0.5], [0.4, 0.4]):
        assert verdict(row, row).word == "no difference"


def test_a_verdict_of_one_seed_or_of_none_says_so():
    assert verdict([0.9], [0.1]).word == verdict([0.4], [0.4]).word == "undecided (one seed)"
    assert verdict([0.5], [0.4]).sentence.startswith("50.0 against 40.0: +10.00 points; one seed")
    assert verdict([], []).word == "not measured"
    assert verdict([], []).sentence == "–"


def side(row, ratio=0.1, **more):
    return {"row": row, "ratio": ratio, **more}


def test_a_claim_may_speak_of_an_epoch():
    spreads = [(0.20, 0.90), (0.21, 0.92), (0.22, 0.91)]
    results = [
        replace(result("PU-MLC", 0.1, seed, 0.4), history=[{"spread": first}, {"spread": last}])
        for seed, (first, last) in enumerate(spreads)
    ]
    early, late = side("PU-MLC", measure="spread@0"), side("PU-MLC", measure="spread@-1")
    found = compare(results, late, early, "coco-mini", "probe")
    assert found.word == "holds"
    assert found.sentence.startswith("0.910 ± 0.010 against 0.210 ± 0.010: +0.7000, 95 % interval +0.6752 to")


def test_each_claim_is_one_line():
    results = [*FEW, *(result("AN", 0.1, seed, value) for seed, value in enumerate((0.35, 0.368, 0.9)))]
    results.append(replace(result("PU-MLC", 0.1, 3, 0.4), test={"mAP": float("nan")}))
    results.append(result("AN", 0.1, 3, 0.1))
    claims = [
        Claim("PU-MLC beats AN", "10 %", compare(results, side("PU-MLC"), side("AN"), "coco-mini", "probe")),
        Claim("also at 50 %", "50 %", compare(results, side("PU-MLC", 0.5), side("AN", 0.5), "coco-mini", "probe")),
        Claim("LgConv helps", "depth probe", "not measurable"),
        Claim("from one seed", "10 %", verdict([0.5], [0.4])),
    ]
    assert [row[-1] for row in claims_table(claims).rows] == [
        "holds",
        "not measured",
        "not measurable",
        "undecided (one seed)",
    ]
    # Seed 2 has no rival, and that of seed 3 has no number.
    assert claims_table(claims).rows[0][2].startswith("41.0 ± 1.4 against 35.9 ± 1.3: +5.10 points")
    assert claims_table(claims).rows[0][2].endswith("ahead in 2 of 2 seeds")


def test_rivals_are_marked_by_the_interval_of_their_differences_seed_by_seed():
    values = {
        "auto": (0.50, 0.52, 0.51),
        "ahead": (0.55, 0.57, 0.565),
        "level": (0.49, 0.53, 0.51),
        "behind": (0.4, 0.42, 0.41),
    }
    results = [result(row, 0.1, seed, value) for row, some in values.items() for seed, value in enumerate(some)]
    table = rivals_table(results, "coco-mini", "probe", "auto", "Rivals")
    marks = {row[0]: row[2].split()[-1] for row in table.rows}
    assert marks == {"auto": "1.0", "ahead": "▲", "level": "=", "behind": "1.0"}
    assert table.notes[0] == "Ahead of auto: ahead (10 %)."
    assert rivals_table(results[:3], "coco-mini", "probe", "auto", "").notes[0] == "Ahead of auto: none."


# Figures and the report


@pytest.mark.parametrize("name", suite_names())
@pytest.mark.parametrize("depth", ["probe", "tail", "finetune"])
def test_every_suite_of_the_package_has_a_report(tmp_path, name, depth):
    suite = read_suite(name)
    tables = [LabelTable.from_positives(["1", "2"], ["a", "b"], [[0], [0, 1]], NEGATIVE)] * 2
    datasets = [Dataset(name, family, *tables) for name, family in (("coco-mini", "coco"), ("voc2007", "voc"))]
    history = [{"holdout_map": 0.2, "spread": 1.0, "tau": 0.5}, {"holdout_map": 0.3, "spread": 2.0, "tau": 1.0}]
    results = []
    for row, ratio, noise in suite.grid():
        for dataset in datasets:
            made = replace(result(row.name, ratio, 0, 0.4, noise=noise), history=history, family=dataset.family)
            results.append(replace(made, cell=replace(made.cell, dataset=dataset.name, depth=depth)))
    section = suite_section(suite, results if depth in suite.depths else [], datasets, depth)
    assert section.tables and (depth in suite.depths or "not measurable" in section.tables[0].markdown())
    words = " ".join(cell for table in section.tables for row in table.rows for cell in row)
    assert "not measured" not in words, "a claim speaks of a cell that the suite does not have"
    write_report(tmp_path, [section])


def sections():
    history = [{"holdout_map": 0.2, "spread": 1.0, "tau": 0.5}, {"holdout_map": 0.3, "spread": 2.0, "tau": 1.0}]
    results = [*FULL, *(result("<b>", 0.5, seed, 0.4 - noise, noise=noise) for noise in (0, 0.2) for seed in (0, 1))]
    results = [replace(one, history=history) for one in results]
    one_setting = [one for one in results if one.cell.ratio == 0.5 and not one.cell.noise]
    table = LabelTable.from_positives(["1", "2", "3"], ["a", "b", "<c>"], [[0], [0, 1], []], NEGATIVE)
    drawn = {
        "ratio": figures.map_over_ratio(results, "coco-mini", "probe"),
        "noise": figures.map_over_noise(results, "coco-mini", "probe"),
        "epochs": figures.epoch_curves(one_setting),
        "temperature": figures.temperature_curves(one_setting),
        "imbalance": figures.imbalance(table, classes=2),
    }
    pictures = [Picture(name, f"{name} & more", figure) for name, figure in drawn.items()]
    tables = [table_1(results, "coco-mini", "probe"), curves(one_setting)]
    return [Section("Known <ratios>", "First.\n\nSecond & last.", tables, pictures)]


def test_a_report_written_twice_is_the_same_to_the_byte(tmp_path):
    for name in ("one", "two"):
        page = write_report(tmp_path / name, sections(), "A bench")
        assert page == tmp_path / name / "report.html"
    first = {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()}
    assert first == {path.name: path.read_bytes() for path in (tmp_path / "two").iterdir()}
    assert {path.split(".")[-1] for path in first} == {"md", "html", "csv", "svg", "png"}
    assert len(first) == 2 + 2 + 2 * 5


def test_the_page_needs_nothing_else_and_shows_text_as_text(tmp_path):
    write_report(tmp_path, sections(), "A <bench>", "A lead.")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "http" not in page and "src=" not in page and "<script" not in page and "@import" not in page
    assert "<b>" not in page and "&lt;b&gt;" in page
    assert "<title>A &lt;bench&gt;</title>" in page
    assert page.count("<svg") == 5
    assert "currentColor" in page and INK not in page.split("</style>")[1]
    identities = [part.split('"')[0] for part in page.split(' id="')[1:]]
    assert len(set(identities)) == len(identities)
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "<" not in markdown.replace("\\<", "") and "![ratio & more](ratio.svg)" in markdown


def test_files_of_a_report_have_names_of_their_own(tmp_path):
    table = Table("Same", ("", "x"), (("a", "1"),))
    with pytest.raises(ConfigError, match="same"):
        write_report(tmp_path, [Section("One", tables=[table]), Section("Two", tables=[table])])


def test_imbalance_shows_classes_drawn_by_lot_with_their_counts():
    table = LabelTable.from_positives(
        [str(i) for i in range(50)], [f"c{i}" for i in range(40)], [range(i % 40) for i in range(50)], NEGATIVE
    )
    (axes,) = figures.imbalance(table, seed=1).axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    counts = dict(zip(table.classes, table.counts(POSITIVE), strict=True))
    assert len(set(names)) == 20
    assert [bar.get_width() for bar in axes.containers[1]] == [counts[name] for name in names]
    assert [bar.get_width() for bar in axes.containers[0]] == [50 - counts[name] for name in names]
