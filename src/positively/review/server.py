"""The web service of a review: the page, the photos, and the API of the page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from positively.errors import PositivelyError, in_shell
from positively.review import views
from positively.review.guard import Guard
from positively.review.pictures import LARGE, THUMBNAIL, Pictures
from positively.review.session import ReviewSession

_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FOREVER = {"Cache-Control": "private, max-age=86400, immutable"}

Row = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=1, le=500)]
Export = tuple[Path, int, int]


class GridRequest(BaseModel):
    """Photos of one tag: given rows, or the most probable ones without some."""

    tag: str
    count: Count = 24
    rows: list[Row] | None = None
    exclude: list[Row] = []


class PhotosRequest(BaseModel):
    """One photo with its candidate tags: a given one, or the one with the most missing tags."""

    row: Row | None = None
    exclude: list[Row] = []


class QuestionsRequest(BaseModel):
    """Single questions of one way or the mixture, without those on the screen."""

    way: Literal["mixed", "likeliest", "teaching", "audit"]
    count: Count = 1
    begin: Row = 0
    """Number of questions of the mixture that were asked before."""
    exclude: list[tuple[Row, str]] = []


class BrowseRequest(BaseModel):
    """All photos, one page at a time."""

    order: Literal["diverse", "table"] = "diverse"
    begin: Row = 0
    count: Count = 24


class AnswerRequest(BaseModel):
    """Decisions about some pairs."""

    pairs: Annotated[list[tuple[Row, str]], Field(min_length=1, max_length=1000)]
    state: Literal[1, 0, -1]
    way: Literal["likeliest", "photo", "teaching", "audit", "hand", "skip"]
    only_open: bool = False


class TagRequest(BaseModel):
    """A new tag, and photos that carry it."""

    name: Annotated[str, Field(max_length=200)]
    rows: Annotated[list[Row], Field(max_length=500)]


def create_app(session: ReviewSession, guard: Guard, export: Callable[[], Export]) -> FastAPI:
    """Create the service of one review.

    Args:
        session: The review.
        guard: Who may talk to it.
        export: Writes the reviewed table, and returns where, how many tags it has more, and how many absences.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.middleware("http")(guard)
    app.add_exception_handler(PositivelyError, _as_sentence)
    app.add_exception_handler(RequestValidationError, _as_mistake)
    _add_page(app, guard.run)
    _add_photos(app, Pictures(session.table.paths))
    _add_reads(app, session)
    _add_writes(app, session, export)
    return app


def _add_page(app: FastAPI, run: str) -> None:
    page = files("positively.review") / "page"
    # Read once: requests can only reach these files.
    contents = {file.name: file.read_bytes() for file in page.iterdir() if Path(file.name).suffix in _TYPES}
    # Part of every request and photo address, because row numbers differ between reviews.
    contents["index.html"] = contents["index.html"].replace(b'data-run=""', f'data-run="{run}"'.encode())

    def serve(name: str) -> Response:
        if name not in contents:
            return Response(status_code=404)
        return Response(contents[name], media_type=_TYPES[Path(name).suffix])

    app.get("/")(partial(serve, "index.html"))
    app.get("/page/{name}")(serve)


def _add_photos(app: FastAPI, pictures: Pictures) -> None:
    def serve(row: int, side: int) -> Response:
        if not 0 <= row < len(pictures):
            return Response(status_code=404)
        return Response(pictures.jpeg(row, side), media_type="image/jpeg", headers=_FOREVER)

    @app.get("/thumbnail/{row}")
    def thumbnail(row: int) -> Response:
        return serve(row, THUMBNAIL)

    @app.get("/photo/{row}")
    def photo(row: int) -> Response:
        return serve(row, LARGE)

    app.state.pictures = pictures


def _add_reads(app: FastAPI, session: ReviewSession) -> None:
    def with_shapes(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [item | {"aspect": app.state.pictures.aspect(item["row"])} for item in items]

    @app.get("/api/status")
    def status() -> dict[str, Any]:
        return views.status(session)

    @app.get("/api/version")
    def version() -> dict[str, int]:
        return {"version": session.version}

    @app.post("/api/grid")
    def grid(asked: GridRequest) -> dict[str, Any]:
        rows = asked.rows
        with session.lock:  # the tag may be removed meanwhile
            if rows is None:
                rows = views.ranking(session, asked.tag, asked.count, asked.exclude)
            version, items = session.version, views.pairs(session, asked.tag, rows)
        return {"version": version, "items": with_shapes(items)}

    @app.post("/api/photo")
    def photo(asked: PhotosRequest) -> dict[str, Any]:
        with session.lock:
            rows = [asked.row] if asked.row is not None else views.promising(session, 2, asked.exclude)
            shown = with_shapes([views.photo(session, row) for row in rows[:1]])
            return {"version": session.version, "photo": shown[0] if shown else None, "next": rows[1:]}

    @app.post("/api/questions")
    def questions(asked: QuestionsRequest) -> dict[str, Any]:
        with session.lock:
            items = views.questions(session, asked.way, asked.count, asked.exclude, asked.begin)
            answered = [pair for pair in asked.exclude if not session.is_open(pair)]
            return {"version": session.version, "items": with_shapes(items), "answered": answered}

    @app.post("/api/browse")
    def browse(asked: BrowseRequest) -> dict[str, Any]:
        rows = session.browse(asked.order)[asked.begin : asked.begin + asked.count].tolist()
        return {"items": with_shapes([{"row": row, "name": session.table.images[row]} for row in rows])}


def _add_writes(app: FastAPI, session: ReviewSession, export: Callable[[], Export]) -> None:
    @app.post("/api/answer")
    def answer(given: AnswerRequest) -> dict[str, Any]:
        changed = session.decide(given.pairs, given.state, given.way, given.only_open)
        return {"changed": changed, "version": session.version}

    @app.post("/api/undo")
    def undo() -> dict[str, Any]:
        undone = session.undo()
        what, pairs = undone if undone is not None else (None, [])
        return {"what": what, "pairs": pairs, "version": session.version}

    @app.post("/api/tag")
    def add_tag(given: TagRequest) -> dict[str, Any]:
        name = session.add_tag(given.name, given.rows)
        return {"name": name, "version": session.version}

    @app.post("/api/audit")
    def start_audit() -> dict[str, Any]:
        session.start_audit()
        return {"version": session.version}

    @app.post("/api/export")
    def write() -> dict[str, Any]:
        path, tags, absences = export()
        return {"path": str(path), "tags": tags, "absences": absences}


def _as_sentence(_: Request, error: Exception) -> Response:
    message = error.message if isinstance(error, PositivelyError) else str(error)
    return JSONResponse({"error": in_shell(message)}, status_code=400)


def _as_mistake(_: Request, error: Exception) -> Response:
    """The error of a request, without its content, which may contain invalid characters."""
    found = error.errors()[0] if isinstance(error, RequestValidationError) else {"loc": (), "msg": str(error)}
    place = ".".join(map(str, found["loc"]))
    return JSONResponse({"error": f"The request was not understood: {place}: {found['msg']}."}, status_code=422)
