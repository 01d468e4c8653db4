// Photos in rows of equal height, with focus, selection by dragging and arrow keys. Answers are handled by the views.

import { h, percent, picture } from "./dom.js";
import { isPlain, keyOf } from "./keys.js";

const HEIGHTS = [96, 120, 150, 190, 240, 320];
const GAP = 8;

function level() {
  const stored = Number(localStorage.getItem("size") ?? 2);
  return Math.min(Math.max(Number.isInteger(stored) ? stored : 2, 0), HEIGHTS.length - 1);
}

export function resize(by) {
  localStorage.setItem("size", Math.min(Math.max(level() + by, 0), HEIGHTS.length - 1));
}

const shape = (item) => Math.min(Math.max(item.aspect, 0.5), 2.4);
const rowHeight = (width) => Math.min(HEIGHTS[level()], width / 3.2);

const room = (tiles) => ({ width: tiles.clientWidth, height: tiles.parentElement.clientHeight - GAP });

/** How many photos to ask for to fill a page without scrolling. */
export function guess(tiles) {
  const { width, height } = room(tiles);
  const tall = rowHeight(width);
  return Math.min(Math.max(Math.ceil((1.6 * (width * height)) / (tall * tall)), 8), 240);
}

/** The items that fill whole rows. */
export function fitting(items, tiles) {
  const { width, height } = room(tiles);
  const tall = rowHeight(width);
  let used = 0;
  let taken = 0;
  let sum = 0;
  let row = 0;
  for (const item of items) {
    const wider = sum + shape(item);
    if (row > 0 && wider * tall + row * GAP > width) {
      used += (width - (row - 1) * GAP) / sum + GAP;
      taken += row;
      if (used + tall * 0.9 > height) return items.slice(0, taken);
      sum = 0;
      row = 0;
    }
    sum += shape(item);
    row += 1;
  }
  return items;
}

export class Tiles {
  /**
   * @param label name of the list for screen readers
   * @param act called with (items, state) for the small buttons on a tile; absent where tiles are only picked
   * @param zoom called with an item
   * @param changed called when focus or selection changed
   */
  constructor({ label, act, zoom, changed }) {
    this.act = act;
    this.zoom = zoom;
    this.changed = changed ?? (() => {});
    this.items = [];
    this.current = 0;
    this.anchor = 0;
    this.selected = new Set();
    this.element = h("ul", { class: "tiles", "aria-label": label });
    this.element.addEventListener("pointerdown", (event) => this.#down(event));
    this.element.addEventListener("pointermove", (event) => this.#move(event));
    for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => (this.sweep = null));
  }

  /** Lay out photos in rows; the last row is filled too if another page follows. */
  show(items, isFull = false) {
    this.items = items;
    this.selected.clear();
    this.current = 0;
    this.anchor = 0;
    this.element.style.setProperty("--tall", `${rowHeight(this.element.clientWidth)}px`);
    this.element.replaceChildren(...items.map((item, place) => this.#tile(item, place)));
    this.element.classList.toggle("full", isFull);
    this.paint();
  }

  get chosen() {
    if (this.selected.size) return [...this.selected].sort((a, b) => a - b).map((place) => this.items[place]);
    return this.items.length ? [this.items[this.current]] : [];
  }

  #tile(item, place) {
    const pick = h(
      "button",
      { class: "pick", type: "button", onclick: (event) => this.#click(event, place), ondblclick: () => this.zoom?.(item) },
      picture(item, "thumbnail", { loading: place > 60 ? "lazy" : "eager" }),
    );
    const tile = h("li", { "data-place": place }, pick);
    tile.style.setProperty("--aspect", shape(item));
    if (item.probability !== undefined) tile.append(h("span", { class: "likely", "aria-hidden": "true" }, percent(item.probability)));
    tile.append(h("span", { class: "mark", "aria-hidden": "true" }));
    if (this.act) {
      const small = (kind, text, state) =>
        h("button", { class: kind, type: "button", tabIndex: -1, "aria-label": `${kind === "yes" ? "Accept" : "Reject"} ${item.name}`, onclick: () => this.act([item], state) }, text);
      tile.append(h("span", { class: "quick" }, small("yes", "✓", 1), small("no", "✕", -1)));
    }
    return tile;
  }

  /** Update the tiles to match items, selection and focus, without moving them. */
  paint() {
    this.items.forEach((item, place) => {
      const tile = this.element.children[place];
      const isSelected = this.selected.has(place);
      tile.className = [item.state > 0 && "accepted", item.state < 0 && "rejected", isSelected && "selected", place === this.current && "current"]
        .filter(Boolean)
        .join(" ");
      const pick = tile.firstChild;
      pick.tabIndex = place === this.current ? 0 : -1;
      pick.setAttribute("aria-pressed", isSelected);
      const told = item.state > 0 ? ", accepted" : item.state < 0 ? ", rejected" : "";
      const likely = item.probability === undefined ? "" : `, ${percent(item.probability)}`;
      pick.setAttribute("aria-label", `${item.name}${item.state ? "" : likely}${told}`);
    });
    this.changed();
  }

  focus(place = this.current) {
    if (!this.items.length) return;
    this.current = Math.min(Math.max(place, 0), this.items.length - 1);
    this.paint();
    this.element.children[this.current].firstChild.focus({ preventScroll: false });
  }

  /** Focus the next open photo, if there is one. */
  advance() {
    const later = (place) => (place + this.current + 1) % this.items.length;
    const open = this.items.map((_, place) => later(place)).find((place) => !this.items[place].state);
    this.focus(open ?? this.current);
  }

  toggle(place = this.current) {
    if (!this.selected.delete(place)) this.selected.add(place);
    this.anchor = place;
    this.paint();
  }

  range(from, to) {
    this.selected.clear();
    for (let place = Math.min(from, to); place <= Math.max(from, to); place += 1) this.selected.add(place);
  }

  /** Handle arrows and space; true if the key was used. */
  key(event) {
    const target = { ArrowLeft: () => this.current - 1, ArrowRight: () => this.current + 1, ArrowUp: () => this.#near(-1), ArrowDown: () => this.#near(1), Home: () => 0, End: () => this.items.length - 1 }[event.key];
    if (target && isPlain(event)) {
      const place = Math.min(Math.max(target(), 0), this.items.length - 1);
      if (event.shiftKey) {
        if (!this.selected.size) this.anchor = this.current;
        this.range(this.anchor, place);
      }
      this.focus(place);
      return true;
    }
    if (event.key === " ") {
      this.toggle();
      return true;
    }
    if (event.key === "Escape" && this.selected.size) {
      this.selected.clear();
      this.paint();
      return true;
    }
    if (["Enter", "z"].includes(keyOf(event)) && this.zoom && this.items.length) {
      this.zoom(this.items[this.current]);
      return true;
    }
    return false;
  }

  #near(way) {
    const boxes = this.items.map((_, place) => this.element.children[place].getBoundingClientRect());
    const from = boxes[this.current];
    if (!from) return 0;
    const middle = (box) => (box.left + box.right) / 2;
    const beyond = boxes.map((box, place) => ({ box, place })).filter(({ box }) => way * (box.top - from.top) > 4);
    if (!beyond.length) return this.current;
    const nextRow = Math[way > 0 ? "min" : "max"](...beyond.map(({ box }) => Math.round(box.top)));
    const row = beyond.filter(({ box }) => Math.abs(box.top - nextRow) < 4);
    return row.reduce((best, one) => (Math.abs(middle(one.box) - middle(from)) < Math.abs(middle(best.box) - middle(from)) ? one : best)).place;
  }

  #click(event, place) {
    if (this.swept) {
      this.swept = false;
      return;
    }
    this.current = place;
    if (event.shiftKey) {
      this.range(this.anchor, place);
      this.paint();
    } else this.toggle(place);
  }

  #place(event) {
    const tile = document.elementFromPoint(event.clientX, event.clientY)?.closest(".tiles > li[data-place]");
    return tile && this.element.contains(tile) ? Number(tile.dataset.place) : null;
  }

  #down(event) {
    this.swept = false;
    if (event.button || event.target.closest(".quick")) return;
    const place = this.#place(event);
    if (place !== null) this.sweep = { from: place, x: event.clientX, y: event.clientY };
    if (event.pointerType !== "mouse") event.target.releasePointerCapture?.(event.pointerId);
  }

  #move(event) {
    if (!this.sweep) return;
    const place = this.#place(event);
    if (place === null || (place === this.sweep.from && !this.swept)) return;
    this.swept = true;
    this.current = place;
    this.range(this.sweep.from, place);
    this.paint();
  }
}
