"""Training data, settings and machine of a run."""

from __future__ import annotations

from positively.labels import NEGATIVE, POSITIVE, UNKNOWN
from positively.report.page import Picture, Section
from positively.report.run import figures as draw
from positively.report.run.contents import RunContents
from positively.report.run.wording import duration, percent
from positively.report.tables import Table

_STATES = ((POSITIVE, "positive"), (NEGATIVE, "negative"), (UNKNOWN, "unknown"))


def training_section(contents: RunContents) -> Section:
    """Training data and settings."""
    config, parts = contents.config, contents.parts
    rows = [("Table", str(config.get("table") or contents.source))]
    if config.get("images"):
        rows.append(("Photos in", str(config["images"])))
    held_out = parts.count("holdout")
    rows.append(("Photos", f"{len(parts):,}" + (f", {held_out:,} of them held out" if held_out else "")))
    if contents.states is not None:
        rows.append(("Labels", _labels(contents)))
    rows += [("Blanks", _blanks(contents)), *_hidden(contents)]
    options = ", ".join(f"{name} {value}" for name, value in (config.get("method_options") or {}).items())
    rows += [
        ("Method", f"{config.get('method')}" + (f" ({options})" if options else "")),
        ("Network", f"{config.get('backbone')} at {config.get('image_size')} px, weights {config.get('weights')}"),
        ("Depth and head", f"{config.get('depth')}, {contents.model['head']}"),
        ("Seed", f"{config.get('seed')}"),
    ]
    if contents.environment.get("started"):
        rows.append(("Started", str(contents.environment["started"]).replace("T", " ")))
    if contents.seconds is not None:
        rows.append(("Time", duration(contents.seconds)))
    pictures = []
    measures = [name for name in (contents.history[0] if contents.history else {}) if _is_curve(contents, name)]
    if measures:
        caption = "Measures after each epoch. A PU loss can be negative; lower is better."
        pictures = [Picture("epochs", caption, draw.epochs(contents.history, measures[:4]), is_narrow=True)]
    elif contents.history:
        last = contents.history[-1]
        told = ", ".join(
            f"{name.replace('_', ' ')} {float(value):.3g}" for name, value in last.items() if _told(name, value)
        )
        rows.append(("Measured in training", told))
    return Section("Training", "", [Table("Training", ("", ""), tuple(rows), is_text=True)], pictures)


def _labels(contents: RunContents) -> str:
    assert contents.states is not None
    counts = [(int((contents.states == state).sum()), name) for state, name in _STATES]
    told = ", ".join(f"{count:,} {name}" for count, name in counts if count)
    return told + (
        "" if len(contents.images) == len(contents.parts) else f", in a sample of {len(contents.images):,} photos"
    )


def _blanks(contents: RunContents) -> str:
    blank = contents.config.get("blank")
    if blank is None:
        return "as in the table from Python"
    zero = contents.config.get("zero")
    return f"a missing tag or an empty cell is {blank}; 0 is {zero}"


def _hidden(contents: RunContents) -> list[tuple[str, str]]:
    """Labels that an experiment hid from the training."""
    config, told = contents.config, []
    if config.get("flip_positives"):
        told.append(f"{percent(config['flip_positives'])} of the positives changed to negative")
    if config.get("known_ratio", 1.0) < 1.0:
        told.append(f"all but {percent(config['known_ratio'])} of the labels, at random")
    if config.get("single_positive"):
        told.append("all but one positive per photo")
    if config.get("positives_only"):
        told.append("every negative")
    return [("Hidden before training", "; ".join(told))] if told else []


def _told(name: str, value: str) -> bool:
    return bool(value) and name not in ("epoch", "lr", "images_per_second")


def _is_curve(contents: RunContents, name: str) -> bool:
    values = [row.get(name) for row in contents.history]
    return name not in ("epoch", "lr", "images_per_second") and len(values) > 1 and all(values)


def environment_section(contents: RunContents) -> Section:
    """The machine and the packages of the training."""
    environment = contents.environment
    rows = [
        (name, str(environment[key]))
        for key, name in (("command", "Command"), ("python", "Python"), ("platform", "System"), ("cores", "Cores"))
        if key in environment
    ]
    rows.append(("GPUs", ", ".join(environment.get("gpus") or []) or "none"))
    packages = environment.get("packages") or {}
    rows.append(("Packages", ", ".join(f"{name} {number}" for name, number in packages.items())))
    return Section("Environment", "", [Table("Environment of the training", ("", ""), tuple(rows), is_text=True)])
