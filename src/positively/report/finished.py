"""The report at the end of a training. This module imports little, as long as there is nothing to report on."""

from __future__ import annotations

from pathlib import Path

from positively.labels import LabelTable
from positively.logs import counted_progress, is_first_process, logger


def report_training(run: Path, table: LabelTable) -> None:
    """Write the report of a finished training. A failure is a warning, because the run itself is complete."""
    if not is_first_process():
        return
    try:
        from positively.report.run.writing import write_run_report

        with counted_progress("Writing the report"):
            page = write_run_report(run, table=table)
        logger.info(f"Report: {page}.")
    except Exception as error:
        logger.warning(
            f"The report could not be written ({error or type(error).__name__}); the run itself is complete."
        )
