// One question at a time. Random checks have known odds, so that what they find is an honest count.

import { $, count, figure, fill, h, isView, key, picture, plural, toast } from "./dom.js";
import { answer, ask, review, startAudit, tagOf } from "./review.js";

const WAYS = {
  audit: ["Random check", "Drawn at random with known odds: an honest count of what is missing."],
  teaching: ["Most useful", "What the model is least sure of: each answer teaches it most."],
  likeliest: ["Likeliest", "What is most probably missing, whatever the tag."],
};

let way = "audit";
let queue = [];
let last = null;
let isLoading = true;

const pending = new Set(); // answers on their way: the server may still ask for them
const nameOf = (item) => `${item.row} ${item.tag}`;

/** Have some questions at hand; the one on the screen stays first, unless it was answered elsewhere. */
async function more(isStale = false) {
  const asked = way;
  isLoading = !queue.length;
  const told = await ask("/api/questions", { way, count: 4, exclude: isStale ? [] : queue.map((item) => [item.row, item.tag]) });
  if (asked !== way) return;
  isLoading = false;
  if (told === null) return;
  const fresh = told.items.filter((item) => !pending.has(nameOf(item)));
  const isAsked = new Set(fresh.map(nameOf));
  const staying = isStale ? queue.slice(0, 1).filter((item) => item.isAgain || isAsked.has(nameOf(item))) : queue;
  const here = new Set(staying.map(nameOf));
  queue = [...staying, ...fresh.filter((item) => !here.has(nameOf(item)))];
  for (const item of queue.slice(1)) picture(item, "photo");
}

async function decide(state) {
  const item = queue.shift();
  if (!item) return;
  last = { ...item, state };
  pending.add(nameOf(item));
  paint();
  const told = await answer([[item.row, item.tag]], state, state ? way : "skip");
  pending.delete(nameOf(item));
  if (told === null) {
    queue.unshift(item);
    last = null;
  }
  // What teaches most changes with every answer; draws do not.
  if (way !== "audit") queue = queue.slice(0, 1);
  if (queue.length < 3) await more();
  paint();
}

function estimate() {
  const { estimate: found, tags, unchecked } = review.status;
  const model = tags.reduce((sum, tag) => sum + tag.missing, 0);
  const lines = found
    ? [h("strong", {}, `About ${count(found.missing)} tags still missing`), h("span", {}, `between ${count(found.low)} and ${count(found.high)}, by ${plural(found.answers, "random check")}`)]
    : [h("strong", {}, `About ${count(model)} tags still missing, the model thinks`), h("span", {}, "Some thirty random checks tell how far it can be believed.")];
  if (unchecked) lines.push(h("button", { onclick: restart }, `Draw anew, with ${plural(unchecked, "new tag")}`));
  return h("div", { class: "estimate" }, ...lines);
}

async function restart() {
  await startAudit();
  queue = [];
  await more();
  paint();
  toast("A new random check begins, over all tags.");
}

function paint() {
  if (!isView("check")) return;
  const item = queue[0];
  $("title").textContent = "Check";
  $("subtitle").textContent = WAYS[way][1];
  const ways = Object.entries(WAYS).map(([name, [label]]) =>
    h("button", { class: "segment", "aria-pressed": String(name === way), onclick: () => choose(name) }, label),
  );
  const wordOf = (state) => (state > 0 ? "yes" : state < 0 ? "no" : "skipped");
  fill($("main"), h(
      "div",
      { class: "check" },
      h("div", { class: "segments", role: "group", "aria-label": "Way of asking" }, ...ways),
      item
        ? figure(item)
        : h("p", { class: "empty" }, isLoading ? "…" : "Nothing is left to ask this way."),
      item && h("p", { class: "question", "aria-live": "polite" }, "Does ", h("strong", {}, item.tag), " belong here?"),
      h("div", { class: "below" }, estimate(), last && h("p", { class: "soft" }, `Last: ${last.tag}, ${wordOf(last.state)}`)),
    ),
  );
  fill($("bar"), ...(item
      ? [
          h("button", { class: "yes large", onclick: () => decide(1) }, "✓ Yes", key("y")),
          h("button", { class: "no large", onclick: () => decide(-1) }, "✕ No", key("n")),
          h("button", { class: "large", onclick: () => decide(0) }, "Skip", key("s")),
        ]
      : []),
  );
}

async function choose(name) {
  way = name;
  queue = [];
  const coming = more();
  paint();
  await coming;
  paint();
}

export const check = {
  async enter() {
    if (!queue.length) await more();
    paint();
  },
  title: () => paint(),
  async refresh() {
    await more(true);
    paint();
  },
  /** Ask again what was taken back. */
  async undone([[row, tag]]) {
    last = null;
    const told = tagOf(tag) ? await ask("/api/grid", { tag, rows: [row] }) : null;
    if (told !== null) {
      const item = { ...told.items[0], tag, isAgain: true };
      queue = [item, ...queue.filter((other) => nameOf(other) !== nameOf(item))];
    }
    paint();
    return told !== null;
  },
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    const state = { y: 1, a: 1, n: -1, r: -1, s: 0, ArrowRight: 0 }[event.key];
    if (state === undefined) return false;
    decide(state);
    return true;
  },
};
