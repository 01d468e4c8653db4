"""Draws a postcard: a place, and the things that are in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from PIL import Image, ImageDraw

SIDE = 224
"""Width and height of a postcard in pixels."""
# Drawn larger and scaled down, for smooth edges.
_SCALE = 2
_FULL = SIDE * _SCALE

Place = Literal["coast", "mountains", "village", "meadow"]
Light = Literal["day", "evening", "grey", "night"]
Where = Literal["far", "sky", "water", "ground"]
Point = tuple[float, float]

_SKIES = {"day": "#bfe3f7", "evening": "#fbd3a8", "grey": "#cfd8dc", "night": "#20304f"}
_GROUNDS = {"coast": "#d9c08b", "mountains": "#8fae7a", "village": "#a3b18a", "meadow": "#7fb069"}
# Places beside each other, so that things seldom cover each other.
_SLOTS: dict[Where, int] = {"far": 3, "sky": 4, "water": 3, "ground": 5}
_HAZE = 205.0
_WATER, _SNOW = "#3d7ea6", "#eef4f7"


@dataclass(frozen=True)
class Pen:
    """Draws one thing in its own coordinates: (0, 0) is the middle of its foot, (0, 1) is its top."""

    draw: ImageDraw.ImageDraw
    x: float
    y: float
    size: float
    random: np.random.Generator

    def _at(self, points: Sequence[Point]) -> list[Point]:
        return [(self.x + u * self.size, self.y - v * self.size) for u, v in points]

    def polygon(self, *points: Point, fill: str) -> None:
        """Fill a polygon."""
        self.draw.polygon(self._at(points), fill=fill)

    def box(self, left: float, bottom: float, right: float, top: float, fill: str) -> None:
        """Fill a rectangle."""
        self.polygon((left, bottom), (right, bottom), (right, top), (left, top), fill=fill)

    def disc(self, u: float, v: float, radius: float, fill: str, height: float = 1.0) -> None:
        """Fill a circle, or an ellipse of another height."""
        corners = self._at([(u - radius, v + radius * height), (u + radius, v - radius * height)])
        self.draw.ellipse([*corners[0], *corners[1]], fill=fill)

    def line(self, *points: Point, fill: str, width: float) -> None:
        """Draw a line; the width is a share of the thing's size."""
        self.draw.line(self._at(points), fill=fill, width=max(1, round(width * self.size)))

    def pick(self, *colors: str) -> str:
        """One of these colours."""
        return colors[int(self.random.integers(len(colors)))]


def _sun(pen: Pen) -> None:
    for angle in np.linspace(0, 2 * np.pi, 12, endpoint=False):
        across, up = float(np.cos(angle)), float(np.sin(angle))
        ends = ((0.36 * across, 0.5 + 0.36 * up), (0.5 * across, 0.5 + 0.5 * up))
        pen.line(*ends, fill="#ffb703", width=0.06)
    pen.disc(0, 0.5, 0.3, "#ffd23f")


def _moon(pen: Pen) -> None:
    turns = np.linspace(-2.2, 2.2, 24)
    outer = [(0.45 * float(np.cos(turn)), 0.5 + 0.45 * float(np.sin(turn))) for turn in turns]
    inner = [(0.32 * float(np.cos(turn)) - 0.2, 0.5 + 0.36 * float(np.sin(turn))) for turn in turns[::-1]]
    pen.polygon(*outer, *inner, fill="#f6f1d5")


def _cloud(pen: Pen) -> None:
    color = pen.pick("#ffffff", "#f1f4f6", "#e3e9ed")
    for u, v, radius in ((-0.45, 0.3, 0.24), (-0.1, 0.42, 0.34), (0.28, 0.34, 0.28), (0.52, 0.26, 0.18)):
        pen.disc(u, v, radius, color, 0.8)


def _balloon(pen: Pen) -> None:
    color, stripe = pen.pick("#e63946", "#8338ec", "#ff9f1c", "#2a9d8f"), pen.pick("#fefae0", "#ffd166")
    pen.line((-0.16, 0.36), (-0.08, 0.16), fill="#444444", width=0.03)
    pen.line((0.16, 0.36), (0.08, 0.16), fill="#444444", width=0.03)
    pen.disc(0, 0.66, 0.33, color)
    pen.disc(0, 0.66, 0.12, stripe, 2.7)
    pen.box(-0.1, 0, 0.1, 0.16, "#7f5539")


def _birds(pen: Pen) -> None:
    for u, v in ((0.0, 0.6), (-0.5, 0.25), (0.5, 0.2))[: int(pen.random.integers(1, 4))]:
        wing = ((u - 0.28, v + 0.1), (u - 0.12, v + 0.2), (u, v), (u + 0.12, v + 0.2), (u + 0.28, v + 0.1))
        pen.line(*wing, fill="#343a40", width=0.08)


def _mountain(pen: Pen) -> None:
    lean, rock = float(pen.random.uniform(-0.2, 0.2)), pen.pick("#6c757d", "#7d7461", "#5b6b7a")
    pen.polygon((-0.9, 0), (0.9, 0), (lean, 1), fill=rock)
    pen.polygon((lean - 0.23, 0.74), (lean - 0.05, 0.8), (lean + 0.08, 0.7), (lean + 0.22, 0.75), (lean, 1), fill=_SNOW)


def _tree(pen: Pen) -> None:
    pen.box(-0.06, 0, 0.06, 0.35, "#6b4226")
    if pen.random.random() < 0.5:
        for bottom, width in ((0.22, 0.34), (0.46, 0.27), (0.66, 0.2)):
            pen.polygon((-width, bottom), (width, bottom), (0, bottom + 0.34), fill="#2d6a4f")
    else:
        color = pen.pick("#40916c", "#588157", "#c0843d")
        for u, v, radius in ((-0.18, 0.56, 0.22), (0.18, 0.56, 0.22), (0, 0.74, 0.26)):
            pen.disc(u, v, radius, color)


def _house(pen: Pen) -> None:
    wall, roof = pen.pick("#f2e2c4", "#e07a5f", "#dfe7fd", "#cbb994"), pen.pick("#9b2226", "#5c4d43", "#3d405b")
    pen.box(-0.45, 0, 0.45, 0.6, wall)
    pen.polygon((-0.56, 0.58), (0.56, 0.58), (0, 1), fill=roof)
    pen.box(-0.1, 0, 0.1, 0.32, "#5c4033")
    pen.box(0.2, 0.26, 0.36, 0.44, "#88a7c4")


def _tent(pen: Pen) -> None:
    pen.polygon((-0.75, 0), (0.75, 0), (0, 0.9), fill=pen.pick("#f4a261", "#457b9d", "#d4a373", "#e9c46a"))
    pen.polygon((-0.2, 0), (0.2, 0), (0, 0.62), fill="#3a3a3a")


def _flowers(pen: Pen) -> None:
    color = pen.pick("#e63946", "#ffb3c6", "#ffd166", "#b5179e", "#ffffff")
    for u in pen.random.uniform(-0.8, 0.8, 5):
        v = float(pen.random.uniform(0.4, 0.85))
        pen.line((float(u), 0), (float(u), v), fill="#386641", width=0.05)
        pen.disc(float(u), v, 0.15, color)
        pen.disc(float(u), v, 0.06, "#7f5539")


def _lighthouse(pen: Pen) -> None:
    pen.polygon((-0.16, 0), (0.16, 0), (0.1, 0.78), (-0.1, 0.78), fill="#faf9f6")
    for low, width in ((0.14, 0.148), (0.44, 0.125)):
        pen.box(-width, low, width, low + 0.14, "#c1121f")
    pen.box(-0.08, 0.78, 0.08, 0.9, "#ffd60a")
    pen.polygon((-0.12, 0.9), (0.12, 0.9), (0, 1), fill="#780000")


def _boat(pen: Pen) -> None:
    pen.polygon((-0.5, 0.2), (0.5, 0.2), (0.3, 0), (-0.3, 0), fill=pen.pick("#bc4749", "#1d3557", "#f1faee"))
    pen.line((-0.02, 0.2), (-0.02, 1), fill="#4a3728", width=0.05)
    pen.polygon((0.04, 0.26), (0.04, 0.96), (0.45, 0.26), fill=pen.pick("#fefae0", "#ffb703", "#ffffff"))


def _dog(pen: Pen) -> None:
    coat = pen.pick("#6f4e37", "#c68642", "#2b2b2b", "#ede0d4")
    for u in (-0.38, -0.22, 0.2, 0.36):
        pen.box(u - 0.05, 0, u + 0.05, 0.4, coat)
    pen.box(-0.44, 0.32, 0.42, 0.66, coat)
    pen.line((-0.42, 0.6), (-0.62, 0.86), fill=coat, width=0.09)
    pen.disc(0.5, 0.78, 0.2, coat)
    pen.disc(0.66, 0.72, 0.12, coat, 0.8)
    pen.polygon((0.34, 0.98), (0.46, 0.92), (0.36, 0.66), fill="#463a2f")


def _bush(pen: Pen) -> None:
    for u, v, radius in ((-0.4, 0.3, 0.3), (0, 0.42, 0.38), (0.42, 0.28, 0.28)):
        pen.disc(u, v, radius, "#52796f", 0.9)


def _rock(pen: Pen) -> None:
    pen.polygon((-0.6, 0), (0.6, 0), (0.44, 0.4), (0.05, 0.62), (-0.4, 0.46), fill=pen.pick("#8d8d8d", "#a39a8c"))


@dataclass(frozen=True)
class Thing:
    """Something on a postcard: where it belongs, how large it is, how it is drawn."""

    where: Where
    size: tuple[float, float]
    """Smallest and largest height, as shares of the postcard."""
    paint: Callable[[Pen], None]


THINGS = {
    "mountain": Thing("far", (0.13, 0.27), _mountain),
    "sun": Thing("sky", (0.08, 0.17), _sun),
    "moon": Thing("sky", (0.06, 0.12), _moon),
    "cloud": Thing("sky", (0.07, 0.16), _cloud),
    "balloon": Thing("sky", (0.08, 0.2), _balloon),
    "bird": Thing("sky", (0.05, 0.1), _birds),
    "tree": Thing("ground", (0.12, 0.27), _tree),
    "house": Thing("ground", (0.1, 0.2), _house),
    "tent": Thing("ground", (0.06, 0.13), _tent),
    "flower": Thing("ground", (0.05, 0.12), _flowers),
    "lighthouse": Thing("ground", (0.14, 0.29), _lighthouse),
    "dog": Thing("ground", (0.05, 0.12), _dog),
    "boat": Thing("water", (0.08, 0.2), _boat),
    "bush": Thing("ground", (0.04, 0.08), _bush),
    "rock": Thing("ground", (0.04, 0.07), _rock),
}
"""What a postcard can show. Bushes and rocks carry no tag."""


def draw_postcard(
    place: Place, light: Light, has_snow: bool, things: Sequence[str], random: np.random.Generator
) -> tuple[Image.Image, dict[str, float]]:
    """Draw a postcard.

    Args:
        place: What kind of landscape it is; a coast has water, on which boats are drawn.
        light: Colour of the sky, and how dark everything is.
        has_snow: Whether snow covers the ground.
        things: Names of :data:`THINGS`.
        random: Where each thing stands, its size and its colours.

    Returns:
        The picture, and the height of each thing as a share of the picture.
    """
    picture = Image.new("RGB", (_FULL, _FULL), _SKIES[light])
    draw = ImageDraw.Draw(picture)
    horizon = float(random.uniform(0.5, 0.62))
    shore = horizon + 0.2 if place == "coast" else horizon
    sizes = {name: float(random.uniform(*THINGS[name].size)) for name in things}
    painted: dict[Where, list[tuple[float, float, str]]] = {where: [] for where in _SLOTS}
    slots = {where: random.permutation(count) for where, count in _SLOTS.items()}
    for name in things:
        where = THINGS[name].where
        slot = slots[where][len(painted[where]) % len(slots[where])]
        x = float(slot + random.uniform(0.25, 0.75)) / len(slots[where])
        painted[where].append((_foot(where, sizes[name], horizon, shore, random), x, name))

    def paint(*parts: Where) -> None:
        for where in parts:
            for foot, x, name in sorted(painted[where]):  # what is nearer covers what is farther
                THINGS[name].paint(Pen(draw, x * _FULL, foot * _FULL, sizes[name] * _FULL, random))

    paint("far", "sky")
    if place == "coast":
        draw.rectangle((0, horizon * _FULL, _FULL, _FULL), fill=_WATER)
    draw.rectangle((0, shore * _FULL, _FULL, _FULL), fill=_SNOW if has_snow else _GROUNDS[place])
    paint("water", "ground")
    return _develop(picture, light, random), sizes


def _foot(where: Where, size: float, horizon: float, shore: float, random: np.random.Generator) -> float:
    """How far below the upper edge the foot of a thing is."""
    if where == "far":
        return horizon + 0.01
    if where == "sky":
        return size + float(random.uniform(0.03, max(0.04, horizon - 0.12 - size)))
    return float(random.uniform(shore + 0.06, 0.97) if where == "ground" else random.uniform(horizon + 0.08, shore))


def _develop(picture: Image.Image, light: Light, random: np.random.Generator) -> Image.Image:
    """Scale down, and add what weather and camera do: haze, exposure, tint and grain."""
    pixels = np.asarray(picture.reduce(_SCALE), dtype=np.float64)
    haze = max(0.0, random.uniform(-0.4, 0.4))
    exposure = {"day": 1.0, "evening": 0.95, "grey": 0.9, "night": 0.6}[light] * random.uniform(0.85, 1.1)
    tint = random.uniform(0.96, 1.04, 3)
    grain = random.normal(0, random.uniform(1, 5), pixels.shape[:2])[:, :, None]
    pixels = (pixels * (1 - haze) + _HAZE * haze) * exposure * tint + grain
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
