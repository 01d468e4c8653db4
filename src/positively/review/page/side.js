// The list of tags with their counts, and a summary below it.

import { $, UNCOUNTED, count, fill, h, plural } from "./dom.js";
import { expectedMissing, review } from "./review.js";

const SHOWN = 200;
let order = [];
let current = null;

/** Tags in a fixed order: those with most missing when the page was opened come first. */
export function orderedTags() {
  const names = new Set(review.status.tags.map((tag) => tag.name));
  const known = new Set(order);
  const worth = (tag) => (tag.learned ? tag.missing : -1);
  const fresh = review.status.tags.filter((tag) => !known.has(tag.name)).sort((a, b) => worth(b) - worth(a));
  const isFirst = !order.length;
  order = [...(isFirst ? [] : fresh.map((tag) => tag.name)), ...order.filter((name) => names.has(name)), ...(isFirst ? fresh.map((tag) => tag.name) : [])];
  return order;
}

export function found() {
  const text = $("search").value.trim().toLowerCase();
  return orderedTags().filter((name) => name.toLowerCase().includes(text));
}

export function paintSide(tag = current) {
  current = tag;
  const byName = new Map(review.status.tags.map((one) => [one.name, one]));
  const names = found();
  $("source").textContent = `${review.status.source} · ${plural(review.status.photos, "photo")}`;
  fill($("tags"), ...names.slice(0, SHOWN).map((name) => row(byName.get(name), name === tag)),
    ...(names.length > SHOWN ? [h("li", { class: "soft more" }, `${count(names.length - SHOWN)} more: use the search`)] : []),
    ...(names.length ? [] : [h("li", { class: "soft more" }, review.status.tags.length ? "No tag found" : "No tag yet")]),
  );
  paintSummary();
}

function row(tag, isCurrent) {
  const bar = h("span", { class: "meter", "aria-hidden": "true" });
  bar.style.setProperty("--share", tag.gained / Math.max(tag.gained + tag.missing, 1));
  const missing = tag.learned ? count(tag.missing) : "?";
  const told = tag.learned ? `about ${count(tag.missing)} missing` : UNCOUNTED;
  return h(
    "li",
    {},
    h(
      "a",
      {
        href: `#grid/${encodeURIComponent(tag.name)}`,
        "aria-current": isCurrent ? "true" : null,
        "aria-label": `${tag.name}: ${tag.known} known, ${tag.gained} gained, ${told}`,
        title: `${tag.known} known, ${tag.gained} gained, ${told}`,
      },
      h("span", { class: "name" }, tag.name),
      h("span", { class: "gained" }, tag.gained ? `+${count(tag.gained)}` : ""),
      h("span", { class: "missing" }, missing),
      bar,
    ),
  );
}

function paintSummary() {
  const { gained, session, estimate, tags, advice } = review.status;
  const model = expectedMissing();
  const isLearned = tags.some((tag) => tag.learned);
  const left = estimate ? `≈ ${count(estimate.missing)}` : isLearned ? `≈ ${count(model)}` : "?";
  const range = estimate ? `${count(estimate.low)}–${count(estimate.high)}` : isLearned ? "by the model" : "not known yet";
  const fact = (value, label, more) => h("p", {}, h("strong", {}, value), h("span", {}, label), h("span", { class: "soft" }, more));
  fill($("summary"), h("div", { class: "facts" }, fact(`+${count(gained)}`, "gained", session.an_hour === null ? "so far" : `${count(session.an_hour)} per hour`), fact(left, "missing", range)),
    h("p", { class: "soft", title: advice }, advice.split(/(?<=\.) /)[0]),
  );
}
