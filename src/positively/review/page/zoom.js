// One photo that fills the screen, with the question about it.

import { $, fill, h, key, percent, picture } from "./dom.js";
import { isPlain, keyOf } from "./keys.js";
import { undoLast } from "./main.js";

let shown = null;

/** Show an item of the tiles in full size. decide is called with ([item], state); without a tag, nothing is asked. */
export function openZoom(item, tag, tiles, decide) {
  shown = { item, tag, tiles, decide };
  paint();
  if (!$("zoom").open) $("zoom").showModal();
  $("zoom").focus();
}

function paint() {
  const { item, tag, tiles, decide } = shown;
  const state = item.state > 0 ? "accepted" : item.state < 0 ? "rejected" : "";
  const question = tag
    ? h("p", { class: "question" }, h("strong", {}, tag), h("span", { class: "soft" }, state || (item.probability === undefined ? "" : percent(item.probability))))
    : h("p", { class: "question soft" }, item.name);
  const act = (value) => decide && move(() => decide([item], value));
  $("zoom").className = state;
  fill($("zoom"), picture(item, "photo", { alt: item.name }),
    h(
      "div",
      { class: "zoom-bar" },
      h("button", { class: "icon", "aria-label": "Previous photo", onclick: () => go(-1) }, "‹"),
      question,
      decide && h("button", { class: "yes", onclick: () => act(1) }, "✓ Accept", key("a")),
      decide && h("button", { class: "no", onclick: () => act(-1) }, "✕ Reject", key("r")),
      h("button", { onclick: () => openPhoto(item.row) }, "All its tags"),
      h("button", { class: "icon", "aria-label": "Next photo", onclick: () => go(1) }, "›"),
      h("button", { class: "icon", "aria-label": "Close", onclick: close }, "✕"),
    ),
  );
  // Keys are for the photo, also after a click.
  if (!$("zoom").contains(document.activeElement)) $("zoom").focus();
  tiles.current = tiles.items.indexOf(item);
}

function openPhoto(row) {
  close();
  location.hash = `#photo/${row}`;
}

function go(by) {
  const { tiles } = shown;
  const place = Math.min(Math.max(tiles.items.indexOf(shown.item) + by, 0), tiles.items.length - 1);
  shown.item = tiles.items[place];
  paint();
}

/** Answer, then show the next one that is open. */
function move(decide) {
  const { tiles } = shown;
  const from = tiles.items.indexOf(shown.item);
  decide();
  const order = tiles.items.map((_, place) => (from + 1 + place) % tiles.items.length);
  const next = order.find((place) => !tiles.items[place].state);
  shown.item = tiles.items[next ?? from];
  paint();
}

function close() {
  $("zoom").close();
}

export function setUpZoom() {
  $("zoom").addEventListener("close", () => shown?.tiles.focus());
  $("zoom").addEventListener("click", (event) => event.target.tagName !== "BUTTON" && !event.target.closest(".zoom-bar") && close());
  $("zoom").addEventListener("keydown", async (event) => {
    if (event.altKey) return;
    const { item, decide } = shown;
    const pressed = keyOf(event);
    const state = event.shiftKey ? undefined : { a: 1, y: 1, r: -1, n: -1 }[pressed];
    const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[pressed];
    const isUndo = isPlain(event) ? pressed === "u" && decide : pressed === "z" && !event.shiftKey;
    if (isUndo) {
      await undoLast();
      shown.item = shown.tiles.items[shown.tiles.current] ?? shown.item;
      paint();
    } else if (!isPlain(event)) return;
    else if (state && decide) move(() => decide([item], state));
    else if (by) go(by);
    else if (pressed === "z" || (pressed === "Enter" && event.target.tagName !== "BUTTON")) close();
    else return;
    event.preventDefault();
  });
}
