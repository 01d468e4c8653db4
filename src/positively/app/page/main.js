// The frame: views by the address, keys for all of them, undo, export.

import { check } from "./check.js";
import { create_ } from "./create.js";
import { $, plural, toast } from "./dom.js";
import { grid } from "./grid.js";
import { photo } from "./photo.js";
import { progress } from "./progress.js";
import { refresh, review, undo, watch, writeTable } from "./review.js";
import { found, orderedTags, paintSide } from "./side.js";
import { setUpZoom } from "./zoom.js";

const views = { grid, photo, check, progress, create: create_ };
let view = null;

async function route() {
  const [name, rest] = location.hash.slice(1).split("/", 2);
  const chosen = views[name] ? name : "grid";
  view = views[chosen];
  document.body.dataset.view = chosen;
  for (const other of ["grid", "photo", "check", "progress"]) {
    if (other === chosen) $(`view-${other}`).setAttribute("aria-current", "page");
    else $(`view-${other}`).removeAttribute("aria-current");
  }
  closeSide();
  await view.enter(rest === undefined ? (chosen === "grid" ? (grid.tag() ?? orderedTags()[0]) : undefined) : decodeURIComponent(rest));
  paintSide(chosen === "grid" ? grid.tag() : null);
  document.title = `${$("title").textContent} · positively`;
}

export async function undoLast() {
  const told = await undo();
  if (told === null) return;
  if (told.what === null) toast("There is nothing left to undo.");
  else toast(`Undone: ${told.what}`);
  await refresh();
  await view.refresh();
}

async function exportTable() {
  const told = await writeTable();
  if (told !== null) toast(`${plural(told.labels, "label")} more in ${told.path}`);
}

function turn(by) {
  const names = orderedTags();
  if (!names.length) return;
  const place = names.indexOf(grid.tag());
  location.hash = `#grid/${encodeURIComponent(names[(place + by + names.length) % names.length])}`;
}

function openSide() {
  $("side").classList.add("open");
  $("open-side").setAttribute("aria-expanded", "true");
}

function closeSide() {
  $("side").classList.remove("open");
  $("open-side").setAttribute("aria-expanded", "false");
}

function onKey(event) {
  if ($("zoom").open || $("keys").open) return;
  const isTyping = event.target.matches("input, textarea, select");
  const isUndo = event.key === "z" && (event.ctrlKey || event.metaKey);
  if (isTyping && event.key === "Escape") event.target.blur();
  if (isTyping) return;
  // A button or link under the focus takes its own keys, but for those of the photos.
  if (["Enter", " "].includes(event.key) && event.target.matches("a, button:not(.pick)")) return;
  const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
  if (isUndo || (plain && event.key === "u")) undoLast();
  else if (view.key(event)) undefined;
  else if (!plain) return;
  else if (event.key === "?") $("keys").showModal();
  else if (event.key === "/") {
    openSide();
    $("search").focus();
  } else if (event.key === "]") turn(1);
  else if (event.key === "[") turn(-1);
  else if (event.key === "t") location.hash = "#create";
  else if ({ g: 1, p: 1, c: 1, i: 1 }[event.key]) location.hash = { g: "#grid", p: "#photo", c: "#check", i: "#progress" }[event.key];
  else return;
  event.preventDefault();
}

function setUp() {
  addEventListener("hashchange", route);
  addEventListener("keydown", onKey);
  $("undo").addEventListener("click", undoLast);
  $("export").addEventListener("click", exportTable);
  $("show-keys").addEventListener("click", () => $("keys").showModal());
  $("new-tag").addEventListener("click", () => (location.hash = "#create"));
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

// The token has done its work as a cookie; it need not stand in the history.
history.replaceState(null, "", location.pathname + location.hash);
setUp();
await refresh();
await route();
watch(() => view.refresh());
document.body.dataset.ready = "true";
