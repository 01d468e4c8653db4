// One question at a time. Random checks have known probabilities, so they give an unbiased count.

import { $, announce, count, figure, fill, h, isView, key, picture, plural, toast } from "./dom.js";
import { hold, isPlain, keyOf } from "./keys.js";
import { answer, ask, expectedMissing, review, startAudit, tagOf } from "./review.js";

const WAYS = {
  mixed: ["Mixed", "Of ten questions, six are the most probable tags, two teach the model most, two are random."],
  audit: ["Random check", "Random photos and tags. They estimate how many tags are still missing."],
  teaching: ["Most useful", "The model is least certain about these, so each answer teaches it most."],
  likeliest: ["Most probable", "The most probable missing tags, over all tags."],
};

let way = "mixed";
let turn = 0; // number of questions answered, which is the position in the mixture
let queue = [];
let last = null;
let isLoading = true;

let requested = 0; // number of requests for questions, and the latest that was answered
let received = 0;

const pending = new Set(); // answers being sent: the server may still ask these questions
const isComing = () => isLoading || pending.size > 0;
const nameOf = (item) => `${item.row} ${item.tag}`;
const waysOf = new Map(); // way of asking of each question, kept for asking it again

/** Choose the next questions again. The one on the screen stays unless it was answered elsewhere. */
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
  // The user may have answered meanwhile: leave out turns that have passed.
  const coming = told.items.slice(Math.max(turn + staying.length - begin, 0));
  // Stop at a question that is already here; the answer being sent asks for the rest again.
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
    : [h("strong", {}, `About ${count(model)} tags still missing, by the model`), h("span", {}, "About thirty random checks give a first estimate.")];
  const isUsedUp = way === "audit" && !queue.length && !isComing() && tags.some((tag) => tag.missing > 0);
  if (unchecked) lines.push(h("button", { onclick: restart }, `Draw again, with ${plural(unchecked, "new tag")}`));
  else if (isUsedUp) lines.push(h("button", { onclick: restart }, "Draw new questions"));
  return h("div", { class: "estimate" }, ...lines);
}

async function restart() {
  await startAudit();
  queue = [];
  await more();
  paint();
  toast("A new random check over all tags has started.");
}

function paint() {
  if (!isView("check")) return;
  const item = queue[0];
  $("title").textContent = "Check";
  $("subtitle").textContent = WAYS[way][1];
  const ways = Object.entries(WAYS).map(([name, [label]]) =>
    h("button", { class: "segment", "aria-pressed": String(name === way), onclick: () => choose(name) }, label),
  );
  if (item) announce(`Does this photo show ${item.tag}? ${item.name}`);
  const wordOf = (state) => (state > 0 ? "yes" : state < 0 ? "no" : "skipped");
  fill($("main"), h(
      "div",
      { class: "check" },
      h("div", { class: "segments", role: "group", "aria-label": "Way of asking" }, ...ways),
      item
        ? figure(item)
        : h("p", { class: "empty" }, isComing() ? "…" : "No questions left of this kind."),
      item && h("p", { class: "question" }, "Does this photo show ", h("strong", {}, item.tag), "?"),
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
  /** Ask the question again whose answer was undone. */
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
