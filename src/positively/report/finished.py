"""The report at the end of a training. Light, so that nothing is imported before there is something to report on."""

from __future__ import annotations

from pathlib import Path

from positively.labels import LabelTable
from positively.logs import is_first_process, logger


def report_training(run: Path, table: LabelTable) -> None:
    """Write the report of a training that is finished; whatever goes wrong is said and does no harm."""
    if not is_first_process():
        return
    try:
        from positively.report.run.writing import write_run_report

        logger.info(f"Report: {write_run_report(run, table=table)}.")
    except Exception as error:  # the run itself is finished and well
        logger.warning(f"The report could not be written ({error or type(error).__name__}); the run is unharmed.")
