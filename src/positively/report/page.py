"""The parts of a report, and how they are written: one self-contained page and, for a bench, files next to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from positively.errors import ConfigError
from positively.files import write_text
from positively.report.figures import THEME, save_figure, svg_text
from positively.report.tables import Table, escape_markdown


@dataclass(frozen=True)
class Picture:
    """A figure with the name of its files and its caption."""

    name: str
    caption: str
    figure: Figure
    is_narrow: bool = False
    """Whether two of them fit side by side."""


@dataclass(frozen=True)
class Tile:
    """A number at the top of the page, what it counts, and a remark."""

    value: str
    label: str
    remark: str = ""


@dataclass(frozen=True)
class Photo:
    """A small picture with its caption."""

    name: str
    uri: str
    """The picture as a data URL; empty if it could not be read."""
    problem: str = ""
    """Why there is no picture."""
    title: str = ""
    badge: str = ""
    lines: Sequence[str] = ()
    is_tiny: bool = False
    """Whether it has so few pixels that they are shown enlarged."""


@dataclass(frozen=True)
class Gallery:
    """Photos under a heading."""

    title: str
    text: str = ""
    photos: Sequence[Photo] = ()
    is_warning: bool = False


@dataclass(frozen=True)
class Section:
    """A part of the report. Its text is plain text, with blank lines between paragraphs."""

    heading: str
    text: str = ""
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    tiles: Sequence[Tile] = ()
    galleries: Sequence[Gallery] = ()

    @property
    def paragraphs(self) -> list[str]:
        """The paragraphs of the text."""
        return [" ".join(part.split()) for part in re.split(r"\n\s*\n", self.text) if part.strip()]

    @property
    def anchor(self) -> str:
        """Target of the link in the contents."""
        return slug(self.heading)


def write_report(folder: Path, sections: Sequence[Section], title: str = "Bench", lead: str = "") -> Path:
    """Write a report; the same sections give the same bytes.

    Args:
        folder: Where report.md, report.html, the tables (CSV) and the figures (SVG and PNG) go.
        sections: Its sections, in order.
        title: Heading of the page.
        lead: One or two sentences below the heading.

    Returns:
        The page: report.html.
    """
    _check_names(sections)
    for section in sections:
        for table in section.tables:
            write_text(folder / f"{slug(table.title)}.csv", table.csv())
        for picture in section.pictures:
            save_figure(picture.figure, folder / picture.name)
    write_text(folder / "report.md", _markdown(sections, title, lead))
    write_text(folder / "report.html", render_page(sections, title, lead, has_files=True))
    return folder / "report.html"


def render_page(sections: Sequence[Section], title: str, lead: str = "", has_files: bool = False) -> str:
    """One HTML page that needs no other file and no network, and is readable without scripts.

    Args:
        sections: Its sections, in order.
        title: Heading of the page.
        lead: One or two sentences below the heading.
        has_files: Whether the tables are CSV files next to the page, and are linked.
    """
    environment = Environment(
        loader=PackageLoader("positively.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {"slug": slug, "inline_svg": inline_svg}
    is_sortable = any(table.is_sortable for section in sections for table in section.tables)
    return environment.get_template("report.html").render(
        title=title, lead=lead, sections=sections, has_files=has_files, is_sortable=is_sortable
    )


def slug(text: str) -> str:
    """Name of a file or an anchor for a heading.

    >>> slug("Table 1: coco-mini, depth probe, mAP (9 ratios)")
    'table-1-coco-mini-depth-probe-map-9-ratios'
    """
    words = re.sub(r"[\W_]+", " ", text.lower()).strip().replace(" ", "-")
    return words if len(words) <= 120 else words[:121].rpartition("-")[0]


def inline_svg(picture: Picture) -> Markup:
    """The figure as part of a page: unique ids, no URLs, text in the color of the page."""
    svg = svg_text(picture.figure, background="none", letters="none")
    svg = svg[svg.index("<svg") :]
    for color, themed in THEME.items():
        svg = svg.replace(color, themed)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(:xlink)?="[^"]*"', "", svg)
    # Figures on one page must not share ids of clip paths and markers.
    svg = re.sub(r'(\sid="|url\(#|href="#)', lambda match: f"{match[1]}{slug(picture.name)}-", svg)
    return Markup(svg)  # drawn by matplotlib, which escapes text


def _check_names(sections: Sequence[Section]) -> None:
    files = [slug(table.title) for section in sections for table in section.tables]
    files += [picture.name for section in sections for picture in section.pictures]
    twice = sorted({file for file in files if files.count(file) > 1} | ({"report"} & set(files)))
    if twice:
        raise ConfigError(f"Tables and figures of a report are files of their own, but the name {twice[0]} is taken.")


def _markdown(sections: Sequence[Section], title: str, lead: str) -> str:
    parts = [f"# {escape_markdown(title)}", escape_markdown(lead)]
    for section in sections:
        parts += [f"## {escape_markdown(section.heading)}", *map(escape_markdown, section.paragraphs)]
        parts += [f"![{escape_markdown(picture.caption)}]({picture.name}.svg)" for picture in section.pictures]
        parts += [table.markdown().strip() for table in section.tables]
    return "\n\n".join(part for part in parts if part) + "\n"
