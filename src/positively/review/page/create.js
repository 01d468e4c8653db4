// A new tag: a name and a few photos that carry it.

import { $, fill, h, isView, key, plural, toast } from "./dom.js";
import { isPlain } from "./keys.js";
import { addTag, ask, refresh, review } from "./review.js";
import { Tiles, fitting, guess } from "./tiles.js";
import { openZoom } from "./zoom.js";

let order = "diverse";
let begins = [0];
let picked = new Map();

// The bar is created once and then updated: replacing the input would lose letters while typing.
const input = h("input", { id: "tag-name", placeholder: "Name of the tag", autocomplete: "off", maxLength: 200, oninput: () => paintBar() });
const counted = h("p", { class: "told" });
const find = h("button", { id: "find", class: "primary" }, "Find it in all photos", key("⏎"));
const form = h("form", { class: "other", onsubmit: create }, h("label", { class: "hidden", for: "tag-name" }, "Name of the tag"), input, find);
const orderButton = h("button", { onclick: () => shuffle() });
const previous = h("button", { class: "icon", "aria-label": "Previous page", onclick: () => back() }, "‹");
const more = h("button", { onclick: () => next() }, "More photos ›");

const tiles = new Tiles({ label: "All photos", zoom: (item) => openZoom(item, null, tiles, null), changed: () => gather() });

/** Add the selection on this page to the photos picked on other pages. */
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
  counted.textContent = picked.size ? `${plural(picked.size, "photo")} picked` : "Pick photos";
  find.disabled = input.value.trim() === "";
  orderButton.textContent = order === "diverse" ? "Varied" : "In order";
  orderButton.setAttribute("aria-pressed", String(order === "diverse"));
  previous.hidden = begins.length < 2;
  more.disabled = begins.at(-1) + tiles.items.length >= review.status.photos;
}

function shuffle() {
  order = order === "diverse" ? "table" : "diverse";
  begins = [0];
  show(0);
}

async function create(event) {
  event.preventDefault();
  if (!picked.size) return toast("Select photos first.");
  const told = await addTag(input.value, [...picked.keys()]);
  if (told === null) return;
  input.value = "";
  picked = new Map();
  tiles.selected.clear();
  await refresh();
  location.hash = `#grid/${encodeURIComponent(told.name)}`;
}

/** Start with a name and a photo from another view. */
export function beginTag(text, item) {
  input.value = text;
  picked = new Map([[item.row, item]]);
  tiles.selected.clear();
}

export const create_ = {
  async enter() {
    fill($("main"), tiles.element);
    fill($("bar"), counted, form, h("span", { class: "gap" }), orderButton, previous, more);
    this.title();
    paintBar();
    await show(begins.at(-1));
  },
  title() {
    $("title").textContent = "New tag";
    $("subtitle").textContent = "Pick at least three photos that share something, and name it.";
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
  /** A typed letter goes to the name. */
  typing() {
    input.focus();
    input.setSelectionRange(input.value.length, input.value.length);
  },
};
