// The frame of the page: views chosen by the address, keys that work in all views, undo and export.

import { check } from "./check.js";
import { create_ } from "./create.js";
import { $, fill, h, key, plural, toast } from "./dom.js";
import { grid } from "./grid.js";
import { hold, isPlain, isPress, isTyping, keyOf, setUpKeys } from "./keys.js";
import { photo } from "./photo.js";
import { progress } from "./progress.js";
import { ask, refresh, review, undo, watch, writeTable } from "./review.js";
import { found, orderedTags, paintSide } from "./side.js";
import { setUpZoom } from "./zoom.js";

const views = { grid, photo, check, progress, create: create_ };
let view = null;

/** The view before the first tag exists. */
const first = {
  enter() {
    this.title();
    const invited = "Pick a few photos that share something and give it a name. It is then found in all other photos.";
    fill($("main"), h("div", { class: "empty" }, h("p", {}, invited), h("button", { class: "primary", onclick: () => goTo("#create") }, "Create the first tag", key("t"))));
    fill($("bar"));
  },
  title() {
    $("title").textContent = "No tag yet";
    $("subtitle").textContent = plural(review.status.photos, "photo");
  },
  refresh() {},
  key: () => false,
};

const viewOf = (name) => (name === "create" || review.status.tags.length ? views[name] : first);

/** Update the page. The view changes when the first tag is created or the last one removed. */
async function renew() {
  if (viewOf(document.body.dataset.view) !== view) await route();
  else await view.refresh();
}

/** Go to an address at once, so that the next key applies to the new view. */
function goTo(hash) {
  if (hash === location.hash) return;
  history.pushState(null, "", hash);
  route();
}

async function route(event) {
  const [name, rest] = location.hash.slice(1).split("/", 2);
  const isKnown = Object.hasOwn(views, name);
  if (name && !isKnown) {
    // The skip link, or a mistake: keep the current view.
    history.replaceState(null, "", event?.oldURL ?? "#grid");
    if (view) return;
  }
  const chosen = isKnown ? name : "grid";
  view = viewOf(chosen);
  document.body.dataset.view = chosen;
  for (const other of ["grid", "photo", "check", "progress"]) {
    if (other === chosen) $(`view-${other}`).setAttribute("aria-current", "page");
    else $(`view-${other}`).removeAttribute("aria-current");
  }
  closeSide();
  for (const dialog of ["zoom", "keys"]) $(dialog).close();
  const entered = view;
  const entering = view.enter(rest === undefined ? (chosen === "grid" ? (grid.tag() ?? orderedTags()[0]) : undefined) : decoded(rest));
  paintSide(chosen === "grid" ? grid.tag() : null);
  await entering;
  if (view !== entered) return;
  document.title = `${$("title").textContent} · positively`;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // typed by hand, such as #grid/50%
  }
}

/** Undo the last answer and go back to where it was given. */
export const undoLast = () => hold(takeBack());

async function takeBack() {
  const told = await undo();
  if (told === null) return;
  if (told.what === null) toast("Nothing to undo.");
  else toast(`Undone: ${told.what}`);
  await refresh();
  const [first] = told.pairs;
  if (first === undefined) return;
  if (viewOf(document.body.dataset.view) !== view) return route();
  const isHere = view.undone ? await view.undone(told.pairs) : false;
  if (isHere) return;
  const item = await ask("/api/photo", { row: first[0] });
  if (item !== null) toast(`Undone: ${told.what}: ${item.photo.name}${told.pairs.length > 1 ? " and others" : ""}`);
}

async function exportTable() {
  const told = await writeTable();
  if (told !== null) toast(`Written to ${told.path}: ${plural(told.tags, "new tag")} and ${plural(told.absences, "new absence")}`);
}

function turn(by) {
  const names = orderedTags();
  if (!names.length) return;
  const place = names.indexOf(grid.tag());
  goTo(`#grid/${encodeURIComponent(names[(place + by + names.length) % names.length])}`);
}

function openSide() {
  $("side").classList.add("open");
  $("open-side").setAttribute("aria-expanded", "true");
}

function closeSide() {
  $("side").classList.remove("open");
  $("open-side").setAttribute("aria-expanded", "false");
}

const PLACES = { t: "#create", g: "#grid", p: "#photo", c: "#check", i: "#progress" };

function onKey(event) {
  if ($("zoom").open || $("keys").open) return;
  const pressed = keyOf(event);
  const plain = isPlain(event);
  const isUndo = pressed === "z" && (event.ctrlKey || event.metaKey) && !event.shiftKey;
  if (isTyping(event) && pressed === "Escape") event.target.blur();
  if (isTyping(event) && !(pressed === "Escape" && event.target.id === "tag-name")) return;
  if (isPress(event, event.target)) return;
  // In a view that asks for a name, letters go to the input.
  const isLetter = event.key !== " " && (event.key.length === 1 || ["Dead", "Process"].includes(event.key));
  if (view.typing && plain && isLetter) {
    view.typing();
    return;
  }
  if (isUndo || (plain && pressed === "u")) undoLast();
  else if (view.key(event)) undefined;
  else if (!plain) return;
  else if (pressed === "?") $("keys").showModal();
  else if (pressed === "/") {
    openSide();
    $("search").focus();
  } else if (pressed === "]") turn(1);
  else if (pressed === "[") turn(-1);
  else if (Object.hasOwn(PLACES, pressed)) goTo(PLACES[pressed]);
  else if (view.typing && pressed === "Escape") goTo("#grid");
  else return;
  event.preventDefault();
}

function setUp() {
  addEventListener("hashchange", route);
  setUpKeys();
  addEventListener("keydown", onKey);
  $("undo").addEventListener("click", undoLast);
  $("export").addEventListener("click", exportTable);
  $("show-keys").addEventListener("click", () => $("keys").showModal());
  $("new-tag").addEventListener("click", () => goTo("#create"));
  $("open-side").addEventListener("click", openSide);
  $("close-side").addEventListener("click", closeSide);
  $("search").addEventListener("input", () => paintSide());
  $("search").addEventListener("keydown", (event) => {
    const first = found()[0];
    if (event.key !== "Enter" || !first) return;
    $("search").value = "";
    $("search").blur();
    location.hash = `#grid/${encodeURIComponent(first)}`;
    paintSide();
  });
  setUpZoom();
  review.listeners.push(() => {
    $("undo").disabled = !review.status.can_undo;
    paintSide();
    view?.title();
  });
}

// The cookie holds the token now; remove it from the history.
history.replaceState(null, "", location.pathname + location.hash);
setUp();
await refresh();
if (!location.hash && !review.status.tags.length) history.replaceState(null, "", "#create");
await route();
watch(renew);
document.body.dataset.ready = "true";
