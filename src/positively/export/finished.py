"""What a run gets at the end of its training, so that it opens without this package."""

from __future__ import annotations

from pathlib import Path

from positively.errors import PositivelyError
from positively.logs import is_first_process, logger


def export_training(run: Path) -> None:
    """Write transformers/ of a training that is finished; where it cannot be, that is said and does no harm."""
    if not is_first_process():
        return
    from positively.models.transformers_export import export_transformers
    from positively.runs import Run

    try:
        folder = export_transformers(Run(run, device="cpu"))
        logger.info(f"For transformers and timm, with its linear head: {folder}.")
    except PositivelyError as error:
        logger.info(error.message)
    except Exception as error:  # the run itself is finished and well
        logger.warning(f"transformers/ could not be written ({error or type(error).__name__}); the run is unharmed.")
