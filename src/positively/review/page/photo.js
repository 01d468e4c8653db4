// One large photo with its probably missing tags.

import { $, about, figure, fill, h, isView, key, percent, picture } from "./dom.js";
import { beginTag } from "./create.js";
import { hold, isPlain, keyOf } from "./keys.js";
import { answer, ask, isOutdated, review } from "./review.js";

let shown = null;
let rows = [];
let place = -1;
let current = 0;
let offered = null; // a name that is not a tag yet

// A single input, so that typed text stays when the view is painted again.
const input = h("input", { id: "other-tag", placeholder: "Another tag", autocomplete: "off" });
input.setAttribute("list", "all-tags");

async function open(row) {
  const told = await ask("/api/photo", row === undefined ? { exclude: rows } : { row });
  if (told === null || !isView("photo")) return;
  if (told.photo === null) {
    fill($("main"), h("p", { class: "empty" }, "No more photos."));
    fill($("bar"));
    return;
  }
  if (!rows.includes(told.photo.row)) rows.push(told.photo.row);
  place = rows.indexOf(told.photo.row);
  shown = told.photo;
  shown.candidates.forEach((candidate) => (candidate.state = 0));
  current = 0;
  offered = null;
  input.value = "";
  history.replaceState(null, "", `#photo/${shown.row}`);
  // Load the next photo in advance.
  for (const next of told.next) picture({ row: next }, "photo");
  paint();
}

async function decide(candidates, state) {
  const before = candidates.map((candidate) => candidate.state);
  for (const candidate of candidates) candidate.state = state;
  const next = shown.candidates.findIndex((candidate, number) => number > current && !candidate.state);
  if (candidates.length === 1 && candidates[0] === shown.candidates[current] && next >= 0 && state) current = next;
  paint();
  const told = await answer(candidates.map((candidate) => [shown.row, candidate.tag]), state, "photo");
  if (told === null) {
    candidates.forEach((candidate, number) => (candidate.state = before[number]));
    paint();
  }
}

/** A button that removes a known tag or clears a decision. */
function chip(tag, state) {
  const told = { 0: "known: remove it", 1: "accepted: clear the answer", [-1]: "rejected: clear the answer" }[state];
  const sign = { 0: "", 1: "✓ ", [-1]: "✕ " }[state];
  const kind = { 0: "", 1: "accepted", [-1]: "rejected" }[state];
  const change = async () => (await answer([[shown.row, tag]], state ? 0 : -1, "hand")) !== null && photo.refresh();
  return h("button", { class: `chip ${kind}`, "data-name": tag, "aria-label": `${tag}, ${told}`, title: told, onclick: change }, sign + tag);
}

const left = () => shown.candidates.filter((candidate) => !candidate.state);

function candidateRow(candidate, number) {
  const state = candidate.state > 0 ? "accepted" : candidate.state < 0 ? "rejected" : "";
  const bar = h("span", { class: "meter", "aria-hidden": "true" });
  bar.style.setProperty("--share", candidate.probability);
  const small = (kind, label, text, value) =>
    h(
      "button",
      { class: `${kind} round`, "aria-label": `${label} ${candidate.tag}`, "aria-pressed": String(candidate.state === value), onclick: () => decide([candidate], candidate.state === value ? 0 : value) },
      text,
    );
  return h(
    "li",
    { class: `${state} ${number === current ? "current" : ""}` },
    number < 9 ? key(String(number + 1)) : h("span", { class: "no-key" }),
    h("span", { class: "name" }, candidate.tag, bar),
    h("span", { class: "soft" }, percent(candidate.probability)),
    small("yes", "Accept", "✓", 1),
    small("no", "Reject", "✕", -1),
  );
}

function paint() {
  if (!shown || !isView("photo")) return;
  $("title").textContent = shown.name.split("/").pop();
  const expected = shown.candidates.reduce((sum, candidate) => sum + (candidate.state ? 0 : candidate.probability), 0);
  $("subtitle").textContent = `${about(expected)} of these tags are missing`;
  const tags = [...shown.known.map((tag) => [tag, 0]), ...Object.entries(shown.decided)].sort(([a], [b]) => a.localeCompare(b));
  const chips = tags.map(([tag, state]) => h("li", {}, chip(tag, state)));
  const names = h("datalist", { id: "all-tags" }, ...review.status.tags.map((tag) => h("option", { value: tag.name })));
  fill($("main"), h(
      "div",
      { class: "photo" },
      figure(shown),
      h(
        "section",
        { class: "panel", "aria-label": "Tags of this photo" },
        chips.length ? h("ul", { class: "chips", "aria-label": "Tags so far" }, ...chips) : null,
        h("h2", {}, shown.candidates.length ? "Probably missing" : "All tags are answered"),
        h("ol", { class: "candidates" }, ...shown.candidates.map(candidateRow)),
        h("form", { class: "other", onsubmit: addOther }, h("label", { class: "hidden", for: "other-tag" }, "Another tag"), input, names, h("button", {}, "Add")),
        offered && h("p", { class: "offer" }, `The tag “${offered}” does not exist yet.`, h("button", { id: "offer", onclick: makeOffered }, "Create it")),
      ),
    ),
  );
  fill($("bar"), h("p", { class: "told" }, left().length ? `${left().length} open` : "Photo done"),
    h("button", { class: "rest", disabled: !left().length, onclick: () => decide(left(), -1) }, "None of the rest", key("⇧R")),
    h("span", { class: "gap" }),
    place > 0 && h("button", { class: "icon", "aria-label": "Previous photo", onclick: back }, "‹"),
    h("button", { class: left().length ? "" : "primary", onclick: forward }, "Next photo ›", key("→")),
  );
}

async function addOther(event) {
  event.preventDefault();
  const name = input.value.trim();
  if (!name) return;
  const tag = review.status.tags.find((other) => other.name.toLowerCase() === name.toLowerCase())?.name;
  if (tag === undefined) {
    offered = name;
    paint();
    $("offer").focus();
    return;
  }
  const told = await answer([[shown.row, tag]], 1, "hand");
  if (told !== null) await open(shown.row);
  input.focus();
}

function makeOffered() {
  beginTag(offered, shown);
  offered = null;
  location.hash = "#create";
}

const forward = () => hold(open(rows[place + 1]));
const back = () => place > 0 && hold(open(rows[place - 1]));

export const photo = {
  async enter(row) {
    await hold(open(row !== undefined && Number.isInteger(Number(row)) ? Number(row) : rows[place]));
  },

  title() {},

  async refresh() {
    if (shown === null) return;
    const told = await ask("/api/photo", { row: shown.row });
    // Painting now would interrupt typing: the view is painted later.
    if (told === null || told.photo.row !== shown.row || document.activeElement === input) return;
    if (isOutdated(told)) {
      setTimeout(() => this.refresh(), 250);
      return;
    }
    const decided = told.photo.decided;
    const here = new Set(shown.candidates.map((candidate) => candidate.tag));
    for (const candidate of shown.candidates) candidate.state = decided[candidate.tag] ?? 0;
    // Ask again about tags whose decision was cleared.
    const again = told.photo.candidates.filter(({ tag }) => tag in shown.decided && !here.has(tag));
    shown.candidates.push(...again.map((candidate) => ({ ...candidate, state: 0 })));
    shown.known = told.photo.known;
    shown.decided = Object.fromEntries(Object.entries(decided).filter(([tag]) => !here.has(tag)));
    paint();
  },

  /** Go back to the photo and the tag whose answer was undone. */
  async undone([[row, tag]]) {
    if (shown?.row === row) await this.refresh();
    else await open(row);
    if (shown?.row !== row) return false;
    current = Math.max(shown.candidates.findIndex((candidate) => candidate.tag === tag), 0);
    paint();
    return true;
  },

  key(event) {
    if (!isPlain(event) || shown === null) return false;
    const digit = event.key === "/" ? null : /^Digit([1-9])$/.exec(event.code); // Shift+7 is / on some keyboards
    const candidate = shown.candidates[digit ? Number(digit[1]) - 1 : current];
    const is = (...names) => names.includes(keyOf(event));
    if (digit && candidate) decide([candidate], event.shiftKey ? -1 : 1);
    else if (event.shiftKey && is("r")) left().length && decide(left(), -1);
    else if (event.shiftKey && is("a")) return false;
    else if (is("a", "y") && candidate) decide([candidate], 1);
    else if (is("r", "n") && candidate) decide([candidate], -1);
    else if (is("Backspace") && candidate) decide([candidate], 0);
    else if (is("ArrowDown", "ArrowUp")) {
      current = Math.min(Math.max(current + (event.key === "ArrowDown" ? 1 : -1), 0), Math.max(shown.candidates.length - 1, 0));
      paint();
    } else if (is("ArrowRight", "PageDown")) forward();
    else if (is("ArrowLeft", "PageUp")) back();
    else return false;
    return true;
  },
};
