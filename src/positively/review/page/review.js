// What the page knows of the review, and the only place that talks to the server.

import { toast } from "./dom.js";

export const review = { status: { tags: [] }, listeners: [] };

async function send(path, body) {
  let response, text;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers: { "Review-Run": document.documentElement.dataset.run, "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    text = await response.text(); // it may die between the head of an answer and its end
  } catch {
    throw new Error("The review is not running any more. Start it again; everything up to here is stored.");
  }
  if (response.ok) return JSON.parse(text);
  // The rows this page knows are those of an earlier start.
  if (response.status === 409) location.reload();
  let told = text;
  try {
    const parsed = JSON.parse(text);
    told = parsed.error ?? "That could not be understood.";
  } catch {
    // plain text, as the guard answers
  }
  throw new Error(told);
}

/** Ask the server; an error becomes a note, and null. */
export async function ask(path, body) {
  try {
    return await send(path, body);
  } catch (error) {
    toast(error.message, true);
    return null;
  }
}

let refreshing = 0;
/** The latest version that was done here, and the latest of which everything that others did is shown. */
let own = -1;
let seen = -1;

/** Counts and advice anew, soon: several answers in a row share one request. */
export function refreshSoon() {
  clearTimeout(refreshing);
  refreshing = setTimeout(refresh, 120);
}

export async function refresh() {
  clearTimeout(refreshing);
  const status = await ask("/api/status");
  if (status === null) return;
  review.status = status;
  if (seen < 0) seen = status.version; // later ones may hold what others did: that is shown by watch
  for (const listener of review.listeners) listener();
}

let waiting = 0;
let chain = Promise.resolve();

/** Tell the server something; one thing after the other, so that an undo never overtakes its answer. */
function tell(path, body) {
  waiting += 1;
  chain = chain.then(async () => {
    const told = await ask(path, body);
    waiting -= 1;
    if (told !== null) own = Math.max(own, told.version ?? 0);
    if (told?.version === seen + 1) seen = told.version; // nobody else did anything meanwhile
    refreshSoon();
    return told;
  });
  return chain;
}

/** Whether what the server told is older than what was done here since. */
export const isOutdated = (told) => waiting > 0 || told.version < own;

export const answer = (pairs, state, way, onlyOpen = false) =>
  tell("/api/answer", { pairs, state, way, only_open: onlyOpen });
export const undo = () => tell("/api/undo", {});
export const addTag = (name, rows) => tell("/api/tag", { name, rows });
export const startAudit = () => tell("/api/audit", {});
export const writeTable = () => tell("/api/export", {});

/** Call back when another tab, or the background, has changed something. */
export function watch(changed) {
  setInterval(async () => {
    if (document.hidden) return;
    try {
      const now = await send("/api/version");
      if (now.version > seen) {
        seen = now.version;
        await refresh();
        changed();
      }
    } catch {
      // the next answer tells it
    }
  }, 1500);
}

/** Tags still missing as far as the model knows: of those that it could learn. */
export const expectedMissing = () => review.status.tags.reduce((sum, tag) => sum + (tag.learned ? tag.missing : 0), 0);

export const tagOf = (name) => review.status.tags.find((tag) => tag.name === name);
