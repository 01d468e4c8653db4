// Helpers for elements, formatted numbers and notifications.

export const $ = (id) => document.getElementById(id);

/** Whether a view is still on the screen and no other was requested. */
export const isView = (name) => document.body.dataset.view === name && (location.hash.slice(1) || "grid").startsWith(name);

/** An element with properties (on… are listeners, aria-… and data-… attributes) and children. */
export function h(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key.includes("-") || key === "role" || key === "for") element.setAttribute(key, value);
    else if (key === "class") element.className = value;
    else element[key] = value;
  }
  element.append(...present(children));
  return element;
}

const present = (children) => children.filter((child) => child !== null && child !== undefined && child !== false);
const nameOf = (element) => element.dataset.name || element.id || element.getAttribute("href") || element.ariaLabel || element.textContent;

/** Replace the children of an element; the focus moves to the new element of the same name. */
export function fill(element, ...children) {
  const focused = document.activeElement;
  const name = focused !== element && element.contains(focused) ? nameOf(focused) : null;
  element.replaceChildren(...present(children));
  if (name === null) return;
  const successor = [...element.querySelectorAll("a, button, input")].find((one) => nameOf(one) === name && !one.disabled);
  (successor ?? element.querySelector(".primary"))?.focus({ preventScroll: true });
}

/** Announce a text to screen readers, once. */
export function announce(text) {
  if ($("announced").textContent !== text) $("announced").textContent = text;
}

export const count = (value) => Math.round(value).toLocaleString("en");
/** A probability is never shown as certain: "> 99 %". */
export const percent = (value) => (value >= 0.995 && value < 1 ? "> 99 %" : value > 0 && value < 0.005 ? "< 1 %" : `${Math.round(100 * value)} %`);
export const plural = (number, what) => `${count(number)} ${what}${Math.round(number) === 1 ? "" : "s"}`;
export const key = (text) => h("kbd", { "aria-hidden": "true" }, text);

/** A label that is shorter on a phone; screen readers read the long one. */
export const label = (long, short) => [
  h("span", { class: "long" }, long),
  h("span", { class: "short", "aria-hidden": "true" }, short),
];

/** Why a tag has no number: it may have many photos, and still nothing in their looks that others lack. */
export const UNCOUNTED = "number of missing not known";

/** "about 31", "almost none": what an expected number means. */
export const about = (value) => (value < 0.5 ? "almost none" : `about ${count(value)}`);

let hiding = 0;
/** A sentence at the edge of the screen, read aloud by screen readers. */
export function toast(text, isError = false) {
  const place = $("toast");
  place.textContent = text;
  place.className = isError ? "shown error" : "shown";
  clearTimeout(hiding);
  hiding = setTimeout(() => (place.className = ""), isError ? 8000 : 3500);
}

/** A photo as an image element. */
export function picture(item, size, properties = {}) {
  return h("img", {
    src: `/${size}/${item.row}?v=${document.documentElement.dataset.run}`,
    alt: "",
    decoding: "async",
    draggable: false,
    ...properties,
  });
}

let framed = null;
/** A large photo. The element is reused for the same photo to avoid flicker. */
export function figure(item) {
  if (framed?.dataset.row !== String(item.row)) {
    framed = h("figure", { "data-row": item.row }, picture(item, "photo", { alt: item.name }));
  }
  return framed;
}
