// Photos of one tag, most probable first. A page stays the same until it is done; the next page uses the new ranking.

import { $, UNCOUNTED, about, fill, h, isView, key, label, percent, plural, toast } from "./dom.js";
import { hold, isPlain, keyOf } from "./keys.js";
import { answer, ask, isOutdated, review, tagOf } from "./review.js";
import { Tiles, fitting, guess, resize } from "./tiles.js";
import { openZoom } from "./zoom.js";

let tag = null;
let pages = [];
let page = 0;
let isWaiting = false;
let visit = {}; // replies for an earlier tag are ignored

const tiles = new Tiles({
  label: "Photos, most probable first",
  act: (items, state) => decide(items, state),
  zoom: (item) => openZoom(item, tag, tiles, decide),
  changed: () => paintBar(),
});

async function decide(items, state, onlyOpen = false) {
  if (!items.length) return;
  const before = items.map((item) => item.state);
  for (const item of items) item.state = state;
  const isSingle = items.length === 1 && !tiles.selected.size;
  tiles.selected.clear();
  tiles.paint();
  if (isSingle && tiles.items[tiles.current] === items[0] && state) tiles.advance();
  const told = await answer(items.map((item) => [item.row, tag]), state, "likeliest", onlyOpen);
  if (told === null) items.forEach((item, place) => (item.state = before[place]));
  else if (onlyOpen && told.changed.length < items.length) await refresh();
  tiles.paint();
}

const open = () => tiles.items.filter((item) => !item.state);

const show = (number) => hold(load(number));

async function load(number) {
  if (isWaiting) return;
  isWaiting = true;
  const asking = visit;
  const known = pages[number];
  const asked = known
    ? { tag, rows: known }
    : { tag, count: guess(tiles.element), exclude: pages.flat() };
  const told = await ask("/api/grid", asked);
  if (asking !== visit) return;
  isWaiting = false;
  if (told === null || !isView("grid")) return;
  const items = known ? told.items : fitting(told.items, tiles.element);
  const isFull = items.length < told.items.length || (known && number < pages.length - 1);
  if (!items.length && number > 0) {
    toast("No more photos for this tag.");
    return;
  }
  // With too few answers, the order is useful but the probabilities are not.
  if (!tagOf(tag)?.learned) for (const item of items) delete item.probability;
  page = number;
  pages[number] = items.map((item) => item.row);
  tiles.show(items, isFull);
  if (document.activeElement === document.body || $("frame").contains(document.activeElement)) tiles.focus(0);
  paintBar();
}

function paintBar() {
  if (!$("bar") || !isView("grid")) return;
  if (!tiles.items.length) {
    fill($("bar"));
    return;
  }
  const left = open().length;
  const selected = tiles.selected.size;
  const accepted = tiles.items.filter((item) => item.state > 0).length;
  const rejected = tiles.items.filter((item) => item.state < 0).length;
  const told = selected
    ? `${plural(selected, "photo")} selected`
    : left
      ? `${plural(left, "photo")} open`
      : `Page done: ${accepted} accepted, ${rejected} rejected`;
  const isDone = !left && !selected;
  fill($("bar"), h("p", { class: "told" }, told),
    !isDone && h("button", { class: "yes", onclick: () => decide(tiles.chosen, 1) }, "✓ Accept", key("a")),
    !isDone && h("button", { class: "no", onclick: () => decide(tiles.chosen, -1) }, "✕ Reject", key("r")),
    !isDone && h("span", { class: "gap" }),
    !isDone && h("button", { class: "rest", disabled: !left, "aria-label": "Accept the rest", onclick: () => rest(1) }, ...label("Accept the rest", "✓ rest"), key("⇧A")),
    !isDone && h("button", { class: "rest", disabled: !left, "aria-label": "Reject the rest", onclick: () => rest(-1) }, ...label("Reject the rest", "✕ rest"), key("⇧R")),
    page > 0 && h("button", { class: "icon", "aria-label": "Previous page", onclick: () => show(page - 1) }, "‹"),
    h("button", { class: isDone ? "primary" : "", "data-name": "next", onclick: () => show(page + 1) }, ...(isDone ? ["Next page ›", key("⏎")] : label("Next page ›", "Next ›"))),
  );
}

const rest = (state) => open().length && decide(open(), state, true);

async function refresh() {
  if (tag && !tagOf(tag)) {
    // An undo has removed the tag.
    tag = null;
    location.hash = review.status.tags.length ? `#grid/${encodeURIComponent(review.status.tags[0].name)}` : "#grid";
    return;
  }
  if (!tiles.items.length) return;
  const asked = tag;
  const told = await ask("/api/grid", { tag, rows: pages[page] });
  if (told === null || asked !== tag) return;
  if (isOutdated(told)) {
    setTimeout(refresh, 250);
    return;
  }
  const state = new Map(told.items.map((item) => [item.row, item.state]));
  for (const item of tiles.items) item.state = state.get(item.row) ?? item.state;
  tiles.paint();
}

export const grid = {
  tag: () => tag,

  async enter(name) {
    fill($("main"), tiles.element);
    const wanted = name && tagOf(name) ? name : tag && tagOf(tag) ? tag : review.status.tags[0]?.name;
    if (!wanted) return;
    if (wanted !== tag || !tiles.items.length) {
      tag = wanted;
      pages = [];
      page = 0;
      visit = {};
      isWaiting = false;
      tiles.show([]);
      this.title();
      const entered = visit;
      await load(0);
      if (entered !== visit || !isView("grid")) return;
      if (!tiles.items.length) {
        fill($("main"), h("p", { class: "empty" }, `All photos are answered for “${tag}”.`));
      }
    } else {
      this.title();
      tiles.focus();
      await refresh();
    }
    paintBar();
  },

  title() {
    const known = tagOf(tag);
    if (!known) return;
    $("title").textContent = tag;
    const precision = known.judged ? ` · ${percent(known.right / known.judged)} of ${known.judged} right` : "";
    const missing = known.learned ? `${about(known.missing)} missing` : UNCOUNTED;
    $("subtitle").textContent = `${known.known} known · ${known.gained} gained · ${missing}${precision}`;
  },

  refresh,

  /** Go back to the photo whose answer was undone; false if it is not on this page. */
  async undone(pairs) {
    const rows = new Set(pairs.filter(([, other]) => other === tag).map(([row]) => row));
    const place = tiles.items.findIndex((item) => rows.has(item.row));
    if (place >= 0) {
      tiles.selected.clear();
      tiles.current = place;
      if (document.activeElement === $("undo")) tiles.paint();
      else tiles.focus();
    }
    await refresh();
    return place >= 0;
  },

  key(event) {
    const is = (...names) => names.includes(keyOf(event));
    if (!isPlain(event)) return false;
    const isDone = tiles.items.length > 0 && !open().length;
    if (event.shiftKey && is("a")) rest(1);
    else if (event.shiftKey && is("r")) rest(-1);
    else if (is("a", "y")) decide(tiles.chosen, 1);
    else if (is("r", "n")) decide(tiles.chosen, -1);
    else if (is("Backspace")) decide(tiles.chosen.filter((item) => item.state), 0);
    else if (is("PageDown", ".") || (isDone && is("Enter"))) show(page + 1);
    else if (is("PageUp", ",")) page > 0 && show(page - 1);
    else if (is("+", "=", "-")) {
      resize(event.key === "-" ? -1 : 1);
      pages.length = page;
      show(page);
    } else return tiles.key(event);
    return true;
  },
};
