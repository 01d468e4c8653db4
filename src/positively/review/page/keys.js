// What a key means before any view sees it: keys that wait, keys held down, and letters under Caps Lock.

let busy = null;

/** Let keys wait for work that changes what they are about: they are for what it leads to. */
export function hold(work) {
  const held = Promise.allSettled([busy, work]).then(() => held === busy && (busy = null));
  busy = held;
  return work;
}

/** The key; a letter is a small one, with Shift and under Caps Lock too. */
export const keyOf = (event) => (event.key.length === 1 ? event.key.toLowerCase() : event.key);
export const isPlain = (event) => !event.ctrlKey && !event.metaKey && !event.altKey;
export const isTyping = (event) => event.target.matches("input, textarea, select");

/** Whether a button or link under the focus takes the key itself; photos leave theirs to the view. */
export const isPress = (event, target) => ["Enter", " "].includes(event.key) && target.matches("a, button:not(.pick)");

/** What may go on while a key is held down; of all else, one press is one answer. */
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
  // Firefox clicks a button when space is let go, whatever became of the press.
  addEventListener("keyup", (event) => event.key === " " && event.target.matches(".pick") && event.preventDefault());
}
