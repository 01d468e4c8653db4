// A tag that nobody had: a few photos that carry it, and a name.

import { $, fill, h, isView, key, plural } from "./dom.js";
import { isPlain } from "./keys.js";
import { addTag, ask, refresh, review } from "./review.js";
import { Tiles, fitting, guess } from "./tiles.js";
import { openZoom } from "./zoom.js";

let order = "diverse";
let begins = [0];
let picked = new Map();

// One field for good: what was typed stays, whatever is painted around it.
const input = h("input", { id: "tag-name", placeholder: "Name of the tag", autocomplete: "off", maxLength: 200, oninput: () => ($("find").disabled = !isReady()) });
const isReady = () => picked.size > 0 && input.value.trim() !== "";

const tiles = new Tiles({ label: "All photos", zoom: (item) => openZoom(item, null, tiles, null), changed: () => gather() });

/** What is selected on this page joins what was picked on others. */
function gather() {
  tiles.items.forEach((item, place) => (tiles.selected.has(place) ? picked.set(item.row, item) : picked.delete(item.row)));
  paintBar();
}

async function show(begin) {
  const told = await ask("/api/browse", { order, begin, count: guess(tiles.element) });
  if (told === null || !isView("create")) return;
  const chosen = new Map(picked);
  const items = fitting(told.items, tiles.element);
  tiles.show(items, items.length < told.items.length);
  picked = chosen;
  items.forEach((item, place) => picked.has(item.row) && tiles.selected.add(place));
  tiles.paint();
  if (document.activeElement !== input) tiles.focus(0);
}

const next = () => {
  const begin = begins.at(-1) + tiles.items.length;
  if (begin >= review.status.photos) return;
  begins.push(begin);
  show(begin);
};
const back = () => {
  if (begins.length < 2) return;
  begins.pop();
  show(begins.at(-1));
};

function paintBar() {
  if (!isView("create")) return;
  fill($("bar"), h("p", { class: "told" }, picked.size ? `${plural(picked.size, "photo")} picked` : "Pick photos"),
    h("form", { class: "other", onsubmit: create }, h("label", { class: "hidden", for: "tag-name" }, "Name of the tag"), input, h("button", { id: "find", class: "primary", disabled: !isReady() }, "Find it in all others", key("⏎"))),
    h("span", { class: "gap" }),
    h("button", { onclick: shuffle, "aria-pressed": String(order === "diverse") }, order === "diverse" ? "Varied" : "In order"),
    begins.length > 1 && h("button", { class: "icon", "aria-label": "Previous page", onclick: back }, "‹"),
    h("button", { disabled: begins.at(-1) + tiles.items.length >= review.status.photos, onclick: next }, "More photos ›"),
  );
}

function shuffle() {
  order = order === "diverse" ? "table" : "diverse";
  begins = [0];
  show(0);
}

async function create(event) {
  event.preventDefault();
  const told = await addTag(input.value, [...picked.keys()]);
  if (told === null) return;
  input.value = "";
  picked = new Map();
  tiles.selected.clear();
  await refresh();
  location.hash = `#grid/${encodeURIComponent(told.name)}`;
}

/** Begin with a name and a photo from elsewhere. */
export function beginTag(text, item) {
  input.value = text;
  picked = new Map([[item.row, item]]);
  tiles.selected.clear();
}

export const create_ = {
  async enter() {
    fill($("main"), tiles.element);
    this.title();
    paintBar();
    await show(begins.at(-1));
  },
  title() {
    $("title").textContent = "New tag";
    $("subtitle").textContent = "Pick photos that share something, three if you can, and name it.";
  },
  async refresh() {},
  key(event) {
    if (!isPlain(event)) return false;
    if (event.key === "PageDown") next();
    else if (event.key === "PageUp") back();
    else if (event.key === "Enter" && picked.size) input.focus();
    else if (event.key === "Escape") return false;
    else return tiles.key(event);
    return true;
  },
  /** A letter is on its way: it belongs to the name. */
  typing() {
    input.focus();
    input.setSelectionRange(input.value.length, input.value.length);
  },
};
