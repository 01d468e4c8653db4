// Keyboard handling before the views: waiting keys, repeated keys and Caps Lock.

let busy = null;

/** Delay keys until this work is done, because it changes what they apply to. */
export function hold(work) {
  const held = Promise.allSettled([busy, work]).then(() => held === busy && (busy = null));
  busy = held;
  return work;
}

/** The key; letters are lower case, also with Shift or Caps Lock. */
export const keyOf = (event) => (event.key.length === 1 ? event.key.toLowerCase() : event.key);
export const isPlain = (event) => !event.ctrlKey && !event.metaKey && !event.altKey;
export const isTyping = (event) => event.target.matches("input, textarea, select");

/** Whether the focused button or link handles the key itself; photos leave it to the view. */
export const isPress = (event, target) => ["Enter", " "].includes(event.key) && target.matches("a, button:not(.pick)");

/** Keys that repeat while held down; any other press counts once. */
const REPEATED = /^(Arrow\w+|Page\w+|Home|End|[u[\]+=.,-])$/;

function gate(event) {
  if (!isPlain(event) || isTyping(event) || ["Tab", "Escape"].includes(event.key)) return;
  const isDropped = event.repeat && (busy !== null || !REPEATED.test(keyOf(event)));
  if (busy === null && !isDropped) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  if (!isDropped) busy.then(() => replay(event));
}

function replay(event) {
  const target = document.activeElement;
  if (isPress(event, target)) target.click();
  else target.dispatchEvent(new KeyboardEvent(event.type, event));
}

export function setUpKeys() {
  addEventListener("keydown", gate, true);
  // Firefox clicks a button when space is released, even if the press was handled.
  addEventListener("keyup", (event) => event.key === " " && event.target.matches(".pick") && event.preventDefault());
}
