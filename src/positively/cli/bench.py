"""``positively bench``: run the experiments of the paper."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from positively.cli.parsing import Parser, make_config, read_options
from positively.config import LearningOptions, MachineOptions, ModelOptions, TrainConfig
from positively.errors import plural
from positively.options import File, Folder
from positively.research.bench.options import BenchOptions
from positively.research.recipes.named import find_file, names_in
from positively.tables.options import ReadOptions

if TYPE_CHECKING:
    from positively.research.bench.datasets import Dataset
    from positively.research.bench.grid import Bench, Job

_SUITES = Path(__file__).parents[1] / "research" / "bench" / "suites"
# The other options of reading are about tables of the user's own.
_READING = {"year", "empty_images", "difficult", "skip_missing_images", "skip_broken", "verify"}
_CHOSEN = {
    "yes": "Start, learning rate and epoch are chosen on complete labels of a part of train, unless they are given.",
    "rate": "Start and learning rate are chosen on complete labels of a part of train, unless they are given.",
    "no": "Start and learning rate are as given.",
}


def parser() -> Parser:
    """Options of the verb."""
    made = Parser(
        "bench",
        "[SUITE ...]",
        "Run grids of trainings (method × known ratio × label noise × seed × dataset), and write their tables and "
        "figures next to the published ones. Results that exist are not computed again; several processes may run the "
        "same command.",
        examples=["positively bench --data coco/", "positively bench table3 --data VOCdevkit/ --seeds 5"],
        common=[
            *("data", "out", "seeds", "ratios", "recipe", "depth", "backbone", "epochs", "train_images", "test_images"),
            *("choose", "report", "word_vectors"),
        ],
    )
    made.add_place(
        "suite",
        f"Suites by name ({', '.join(names_in(_SUITES))}), or YAML files of your own; default: table1.",
        required=False,
        many=True,
    )
    made.add_recipe()
    made.add(
        "data",
        list[Folder],
        [],
        "Datasets: the folder of COCO, a VOCdevkit, or a folder with train.csv and val.csv (or test.csv) whose tags "
        "are complete.",
    )
    made.add(
        "word_vectors",
        list[File],
        [],
        "Word vectors of the classes, for heads that use them; default: vectors that learn. One .npy file for each "
        "dataset, in the order of --data, with one row per class.",
    )
    made.add("ratios", list[float], [], "Known ratios; default: those of the suite.")
    made.add_group(BenchOptions)
    made.add("start", Literal["auto", "default", "prior"], "auto", "First weights of every head. 'auto' chooses them.")
    made.add_plugin()
    made.add_group(ModelOptions, without={"embeddings"})
    made.add_group(LearningOptions, without={"seed"})
    made.add_group(MachineOptions)
    made.add_group(ReadOptions, only=_READING)
    return made


def main(arguments: list[str]) -> int:
    """Read the datasets, train the cells without results, and write the report."""
    values = parser().parse(arguments)
    from positively.cli.paths import require_table
    from positively.errors import ConfigError, option
    from positively.registry import load_plugin

    began, options = time.perf_counter(), make_config(BenchOptions, values)
    if values.plugin:
        load_plugin(values.plugin)
    suites_asked = list(dict.fromkeys(values.suite)) or ["table1"]
    for name in suites_asked:
        find_file(_SUITES, "suite", name)
    if not values.data:
        raise ConfigError(
            f"Pass a dataset with {option('data', 'DIR')}: the folder of COCO, a VOCdevkit, or a folder with train.csv "
            "and val.csv."
        )
    if values.word_vectors and len(values.word_vectors) != len(values.data):
        raise ConfigError(
            f"{option('word_vectors')} takes one file for each benchmark: {len(values.data)}, not "
            f"{len(values.word_vectors)}."
        )
    if options.seeds < 1:
        raise ConfigError(f"{option('seeds')} must be at least 1, not {options.seeds}.")
    for place in values.data:
        require_table(place)
    # These imports take seconds, so they come after the quick checks.
    from positively.finetune.auto import check_wing_config
    from positively.finetune.runtime import launch
    from positively.logs import logger
    from positively.models import check_word_vectors, find_backbone
    from positively.report.page import write_report
    from positively.research.bench.datasets import read_dataset
    from positively.research.bench.grid import Bench
    from positively.research.bench.sections import labels_section, suite_section
    from positively.research.bench.suite import read_suite
    from positively.research.recipes import read_recipe

    suites = [read_suite(name) for name in suites_asked]
    if values.ratios:
        suites = [replace(suite, ratios=tuple(values.ratios)) for suite in suites]
    config = replace(make_config(TrainConfig, values), out=None, devices=1)
    check_wing_config(config)
    if config.backbone != "auto":
        find_backbone(config.backbone)
    fabric = launch(config)
    datasets = []
    for place in values.data:
        dataset = read_dataset(place, read_options(values)).subset(options.train_images, options.test_images)
        logger.info("\n".join([dataset.sizes, *dataset.notes]))
        datasets.append(dataset)

    out = Path(options.out)
    if config.depth == "auto":
        config = replace(config, depth="finetune" if fabric.device.type != "cpu" else "probe")
    choose = options.choose
    if choose == "auto":
        choose = "yes" if config.depth == "probe" else "no"
    word_vectors = dict(zip((dataset.name for dataset in datasets), values.word_vectors, strict=False))
    for dataset in datasets:
        if dataset.name in word_vectors:
            check_word_vectors(word_vectors[dataset.name], len(dataset.train.classes))
    recipe = read_recipe(values.recipe) if values.recipe else None
    bench = Bench(out, datasets, config, fabric, choose, recipe, word_vectors)
    able = [suite for suite in suites if config.depth in suite.depths]
    jobs = {suite.name: bench.jobs(suite, options.seeds) for suite in able}
    if not options.report:
        _compute(bench, [job for some in jobs.values() for job in some])
    sections = [labels_section(datasets)]
    for suite in suites:
        results = bench.results(jobs.get(suite.name, []))
        sections.append(suite_section(suite, results, datasets, str(config.depth)))
    told = _CHOSEN[choose] + (" Heads that know the classes' names: word vectors given." if word_vectors else "")
    page = write_report(out, sections, title="Bench", lead=_lead(config, datasets, options.seeds, told))
    for section in sections[1:]:
        print("\n" + "\n".join(table.markdown() for table in section.tables))
    print(f"Report: {page}; tables and figures beside it. {(time.perf_counter() - began) / 60:.1f} minutes.")
    return 0


def _compute(bench: Bench, jobs: list[Job]) -> None:
    from positively.logs import counted_progress, logger

    with counted_progress("Training cells", len(jobs)) as show:

        def progress(job: Job, done: int, total: int) -> None:
            show(done, total)
            logger.debug(f"{done}/{total} {job.cell.name}")

        bench.run(jobs, progress)


def _lead(config: TrainConfig, datasets: list[Dataset], seeds: int, told: str) -> str:
    names = " and ".join(dataset.name for dataset in datasets)
    return (
        f"{names}, depth {config.depth}, backbone {config.backbone}, {plural(seeds, 'seed')}. A seed changes the "
        f"hidden labels, the order of images and the first weights. {told} Nothing was chosen on test images."
    )
