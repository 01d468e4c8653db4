// One question at a time. Random checks have known odds, so that what they find is an honest count.

import { $, announce, count, figure, fill, h, isView, key, picture, plural, toast } from "./dom.js";
import { hold, isPlain, keyOf } from "./keys.js";
import { answer, ask, expectedMissing, review, startAudit, tagOf } from "./review.js";

const WAYS = {
  mixed: ["Mixed", "Of ten: six likeliest, two that teach, two at random."],
  audit: ["Random check", "Drawn at random with known odds: an honest count of what is missing."],
  teaching: ["Most useful", "What the model is least sure of: each answer teaches it most."],
  likeliest: ["Likeliest", "What is most probably missing, whatever the tag."],
};

let way = "mixed";
let turn = 0; // questions answered: which turn of the mixture it is
let queue = [];
let last = null;
let isLoading = true;

let requested = 0; // requests for questions, and the latest of them that was answered
let received = 0;

const pending = new Set(); // answers on their way: the server may still ask for them
const isComing = () => isLoading || pending.size > 0;
const nameOf = (item) => `${item.row} ${item.tag}`;
const waysOf = new Map(); // how each was asked: as such it is asked again

/** Choose anew what follows the question on the screen; that one stays, unless it was answered elsewhere. */
async function more() {
  const asked = way;
  const number = ++requested;
  isLoading = !queue.length;
  const shown = queue.slice(0, 1);
  const begin = turn + shown.length;
  const told = await ask("/api/questions", { way, count: 4, begin, exclude: shown.map((item) => [item.row, item.tag]) });
  if (asked !== way || number < received) return; // a later request was answered first
  received = number;
  isLoading = false;
  if (told === null) return;
  const gone = new Set(told.answered.map(([row, tag]) => nameOf({ row, tag })));
  const staying = queue.slice(0, 1).filter((item) => !gone.has(nameOf(item)));
  const here = new Set([...pending, ...staying.map(nameOf)]);
  // A quick hand has gone on meanwhile: turns that have passed are left out.
  const coming = told.items.slice(Math.max(turn + staying.length - begin, 0));
  // A question that is here already would give its turn to the next: the answer on its way asks for the rest again.
  const repeated = coming.findIndex((item) => here.has(nameOf(item)));
  const following = repeated < 0 ? coming : coming.slice(0, repeated);
  queue = [...staying, ...following];
  for (const item of following) {
    waysOf.set(nameOf(item), item.way);
    picture(item, "photo");
  }
}

async function renew() {
  await more();
  paint();
}

async function decide(state) {
  const item = queue.shift();
  if (!item) return;
  last = { ...item, state };
  turn += 1;
  pending.add(nameOf(item));
  paint();
  const told = await answer([[item.row, item.tag]], state, state ? item.way : "skip");
  if (told === null) {
    queue.unshift(item);
    turn -= 1;
    last = null;
  }
  await more();
  pending.delete(nameOf(item));
  paint();
}

function estimate() {
  const { estimate: found, tags, unchecked } = review.status;
  const model = expectedMissing();
  const lines = found
    ? [h("strong", {}, `About ${count(found.missing)} tags still missing`), h("span", {}, `between ${count(found.low)} and ${count(found.high)}, by ${plural(found.answers, "random check")}`)]
    : [h("strong", {}, `About ${count(model)} tags still missing, the model thinks`), h("span", {}, "Some thirty random checks tell how far it can be believed.")];
  const isUsedUp = way === "audit" && !queue.length && !isComing() && tags.some((tag) => tag.missing > 0);
  if (unchecked) lines.push(h("button", { onclick: restart }, `Draw anew, with ${plural(unchecked, "new tag")}`));
  else if (isUsedUp) lines.push(h("button", { onclick: restart }, "Draw new ones, among what is open"));
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
  if (item) announce(`Does ${item.tag} belong here? ${item.name}`);
  const wordOf = (state) => (state > 0 ? "yes" : state < 0 ? "no" : "skipped");
  fill($("main"), h(
      "div",
      { class: "check" },
      h("div", { class: "segments", role: "group", "aria-label": "Way of asking" }, ...ways),
      item
        ? figure(item)
        : h("p", { class: "empty" }, isComing() ? "…" : "Nothing is left to ask this way."),
      item && h("p", { class: "question" }, "Does ", h("strong", {}, item.tag), " belong here?"),
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
  turn = 0;
  queue = [];
  const coming = more();
  paint();
  await coming;
  paint();
}

export const check = {
  enter: () => hold(renew()),
  title: () => paint(),
  refresh: renew,
  /** Ask again what was taken back. */
  async undone([[row, tag]]) {
    last = null;
    const told = tagOf(tag) ? await ask("/api/grid", { tag, rows: [row] }) : null;
    if (told !== null) {
      const item = { ...told.items[0], tag };
      item.way = waysOf.get(nameOf(item)) ?? (way === "mixed" ? "likeliest" : way);
      turn = Math.max(turn - 1, 0);
      queue = [item, ...queue.filter((other) => nameOf(other) !== nameOf(item))];
    }
    paint();
    return told !== null;
  },
  key(event) {
    if (!isPlain(event) || event.shiftKey) return false;
    const state = { y: 1, a: 1, n: -1, r: -1, s: 0, ArrowRight: 0 }[keyOf(event)];
    if (state === undefined) return false;
    if (!event.repeat) decide(state);
    return true;
  },
};
