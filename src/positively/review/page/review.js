// The state of the review, and all requests to the server.

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
    text = await response.text(); // the connection may break between headers and body
  } catch {
    throw new Error("The review is not running anymore. Start it again; all your answers are stored.");
  }
  if (response.ok) return JSON.parse(text);
  // The server was restarted, and the rows of this page are outdated.
  if (response.status === 409) location.reload();
  let told = text;
  try {
    const parsed = JSON.parse(text);
    told = parsed.error ?? "The request was not understood.";
  } catch {
    // plain text, from the guard
  }
  throw new Error(told);
}

/** Ask the server; an error is shown and returns null. */
export async function ask(path, body) {
  try {
    return await send(path, body);
  } catch (error) {
    toast(error.message, true);
    return null;
  }
}

let refreshing = 0;
/** The latest version made by this page, and the latest version that is fully shown. */
let own = -1;
let seen = -1;

/** Refresh counts and advice soon; several answers in a row share one request. */
export function refreshSoon() {
  clearTimeout(refreshing);
  refreshing = setTimeout(refresh, 120);
}

export async function refresh() {
  clearTimeout(refreshing);
  const status = await ask("/api/status");
  if (status === null) return;
  review.status = status;
  if (seen < 0) seen = status.version; // later versions may hold changes of others, which watch shows
  for (const listener of review.listeners) listener();
}

let waiting = 0;
let chain = Promise.resolve();

/** Send a change to the server. Changes are sent one at a time, so an undo never overtakes its answer. */
function tell(path, body) {
  waiting += 1;
  chain = chain.then(async () => {
    const told = await ask(path, body);
    waiting -= 1;
    if (told !== null) own = Math.max(own, told.version ?? 0);
    if (told?.version === seen + 1) seen = told.version; // no other change came between
    refreshSoon();
    return told;
  });
  return chain;
}

/** Whether a reply of the server is older than a change made here. */
export const isOutdated = (told) => waiting > 0 || told.version < own;

export const answer = (pairs, state, way, onlyOpen = false) =>
  tell("/api/answer", { pairs, state, way, only_open: onlyOpen });
export const undo = () => tell("/api/undo", {});
export const addTag = (name, rows) => tell("/api/tag", { name, rows });
export const startAudit = () => tell("/api/audit", {});
export const writeTable = () => tell("/api/export", {});

/** Call back when another browser tab or the background work has changed something. */
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
      // the next answer shows the error
    }
  }, 1500);
}

/** Expected number of missing tags, over the tags that could be learned. */
export const expectedMissing = () => review.status.tags.reduce((sum, tag) => sum + (tag.learned ? tag.missing : 0), 0);

export const tagOf = (name) => review.status.tags.find((tag) => tag.name === name);
