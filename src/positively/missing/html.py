"""The list of missing tags as HTML, for notebooks."""

from __future__ import annotations

import base64
import io
from html import escape
from pathlib import Path

from positively.errors import ImageError
from positively.images.decode import load_image
from positively.missing.result import MissingTags, Suggestion

_SHOWN, _SIDE = 12, 112


def to_html(found: MissingTags) -> str:
    """The description and the first suggestions; images that cannot be read have no thumbnail."""
    lines = "".join(f"<p>{escape(line)}</p>" for line in str(found).split("\n"))
    tiles = "".join(_tile(found.root, one) for one in found[:_SHOWN])
    return f'<div>{lines}<div style="display:flex;flex-wrap:wrap;gap:8px">{tiles}</div></div>'


def _tile(root: Path, suggestion: Suggestion) -> str:
    source = _thumbnail(root / suggestion.image)
    picture = f'<img src="{source}" alt="">' if source else ""
    text = (
        f"<b>{escape(suggestion.tag)}</b> {100 * suggestion.value:.0f} %<br><small>{escape(suggestion.image)}</small>"
    )
    style = f"width:{_SIDE}px;margin:0;overflow-wrap:anywhere"
    return f'<figure style="{style}">{picture}<figcaption>{text}</figcaption></figure>'


def _thumbnail(path: Path) -> str | None:
    """A small JPEG as a data: URL."""
    try:
        image = load_image(path, at_least=_SIDE)
    except ImageError:
        return None
    image.thumbnail((_SIDE, _SIDE))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=80)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"
