// The progress of the review in numbers, in total and for each tag.

import { $, count, fill, h, percent, plural } from "./dom.js";
import { expectedMissing, review, tagOf } from "./review.js";
import { orderedTags } from "./side.js";

const ROWS = 300;

const card = (value, label, more) => h("div", { class: "card" }, h("strong", {}, value), h("span", {}, label), more && h("span", { class: "soft" }, more));

function paint() {
  const { status } = review;
  const { session, estimate, tags } = status;
  const judged = tags.reduce((sum, tag) => sum + tag.judged, 0);
  const right = tags.reduce((sum, tag) => sum + tag.right, 0);
  const model = expectedMissing();
  $("title").textContent = "Progress";
  $("subtitle").textContent = `${status.source}, ${plural(status.photos, "photo")}, ${plural(tags.length, "tag")}`;
  fill($("bar"));
  const head = ["Tag", "Known", "Gained", "Rejected", "Right so far", "Probably missing"];
  const body = orderedTags().slice(0, ROWS).map(tagOf).map((tag) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, h("a", { href: `#grid/${encodeURIComponent(tag.name)}` }, tag.name)),
      ...[count(tag.known), tag.gained ? `+${count(tag.gained)}` : "–", tag.rejected ? count(tag.rejected) : "–", tag.judged ? `${percent(tag.right / tag.judged)} of ${tag.judged}` : "–", tag.learned ? count(tag.missing) : "not known"].map((text) => h("td", {}, text)),
    ),
  );
  fill($("main"), h(
      "div",
      { class: "progress" },
      h("p", { class: "advice" }, status.advice),
      h(
        "div",
        { class: "cards" },
        card(`+${count(status.gained)}`, "tags gained", session.gained ? `${count(session.gained)} in this session` : null),
        card(session.an_hour === null ? "–" : count(session.an_hour), "tags gained per hour", session.minutes < 1 ? "less than a minute of work" : `${plural(session.minutes, "minute")} of work`),
        card(judged ? percent(right / judged) : "–", "of suggestions accepted", judged ? `${count(right)} of ${count(judged)}` : "none answered yet"),
        status.precision &&
          card(percent(status.precision.right), "of suggestions above 50 % are right", `${percent(status.precision.low)} to ${percent(status.precision.high)} by random checks; the model expected ${percent(status.precision.stated)}`),
        estimate
          ? card(`≈ ${count(estimate.missing)}`, "tags still missing", `${count(estimate.low)} to ${count(estimate.high)}, by ${plural(estimate.answers, "random check")}`)
          : card(`≈ ${count(model)}`, "tags still missing", "by the model; use Check for an estimate"),
      ),
      h("table", {}, h("caption", { class: "hidden" }, "Tags"), h("thead", {}, h("tr", {}, ...head.map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, ...body)),
      tags.some((tag) => !tag.learned) &&
        h("p", { class: "soft" }, "Not known: counting missing tags needs at least three photos that look different from the rest."),
      tags.length > ROWS && h("p", { class: "soft" }, `Showing the first ${ROWS} of ${count(tags.length)} tags.`),
    ),
  );
}

export const progress = { enter: paint, title: paint, refresh: paint, key: () => false };
