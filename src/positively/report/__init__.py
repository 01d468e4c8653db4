"""Reports: figures, tables and one self-contained HTML page."""

from typing import TYPE_CHECKING

from positively.lazy import lazy

if TYPE_CHECKING:
    from positively.report.figures import COLORS, MARKERS, PALE, add_legend, new_figure, plain_name, save_figure, styled
    from positively.report.finished import report_training
    from positively.report.page import Picture, Section, slug, write_report
    from positively.report.tables import Table

__all__ = [
    "COLORS",
    "MARKERS",
    "PALE",
    "Picture",
    "Section",
    "Table",
    "add_legend",
    "new_figure",
    "plain_name",
    "report_training",
    "save_figure",
    "slug",
    "styled",
    "write_report",
]

__getattr__ = lazy(
    __name__,
    {
        "figures": ["COLORS", "MARKERS", "PALE", "add_legend", "new_figure", "plain_name", "save_figure", "styled"],
        "finished": ["report_training"],
        "page": ["Picture", "Section", "slug", "write_report"],
        "tables": ["Table"],
    },
)
