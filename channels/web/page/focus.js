// The focus of the keyboard is never lost. Where the element that has it is drawn anew, taken away or hidden, the
// focus goes to the one of its name in the same box, or to what stands in its place.
import { byId } from "./dom.js";

const FOCUSABLE = "button:enabled, summary, a[href], input:enabled, select:enabled, textarea:enabled, [tabindex='0']";
const MARKS = ["id", "data-turn", "data-id", "data-session", "data-cut", "data-words"]; // each identifies an element
const LAYERS = "dialog, [popover]";

let held = null; // the element with the focus, and its position
let last = null; // the one before it
const changes = new MutationObserver((records) => keep(records));
const before = new WeakMap(); // dialogs and menus, with the focused element before they opened

const isThere = (one) => one.isConnected && !one.disabled && one.checkVisibility({ visibilityProperty: true }) && !one.closest("[inert]");
const nameOf = (one) => one.id || one.ariaLabel || one.textContent;

/** An element, and its way down from the body: each box with its mark and its place among its siblings. */
function placeOf(element) {
  const way = [];
  for (let one = element; one !== document.body; one = one.parentElement) {
    const mark = MARKS.find((name) => one.getAttribute(name));
    way.unshift({ box: one, at: [...one.parentElement.children].indexOf(one), mark: mark && `[${mark}="${CSS.escape(one.getAttribute(mark))}"]` });
  }
  return { element, name: nameOf(element), way };
}

/** Return the element that gets the focus instead of a removed one; `added` are new nodes. */
function heir({ name, way }, added) {
  const last = way.findLastIndex(({ box }) => isThere(box));
  const boxes = way.slice(0, last + 1).map(({ box }) => box);
  let wasLast = false; // nothing follows it any longer
  for (const { mark, at } of way.slice(last + 1)) {
    const box = boxes.at(-1) ?? document.body;
    const next = (mark && box.querySelector(mark)) ?? box.children[Math.min(at, box.children.length - 1)];
    if (!next || !isThere(next)) break;
    wasLast ||= !mark && at >= box.children.length;
    boxes.push(next);
  }
  const marked = boxes.findLastIndex((box) => MARKS.some((one) => box.hasAttribute(one)));
  const same = [...(boxes[marked]?.querySelectorAll(FOCUSABLE) ?? [])]
    .find((one) => nameOf(one) === name && isThere(one) && added.some((node) => node.contains(one)));
  if (same) return same;
  const place = boxes.pop();
  if (place?.matches(FOCUSABLE)) return place;
  for (const box of [place, ...boxes.reverse()].filter(Boolean)) {
    const all = [...box.querySelectorAll(FOCUSABLE)];
    const isBehind = (one) => place.contains(one) || place.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING;
    const found = (wasLast ? null : all.find((one) => isBehind(one) && isThere(one))) ?? all.findLast(isThere);
    if (found || box.matches("dialog")) return found ?? box;
  }
  return null;
}

/** Return whether there is a keyboard; that of a touch screen hides the chat as soon as the message box has the focus. */
export const hasKeyboard = () => matchMedia("(hover: hover)").matches;

/** The element that gets the focus when the focused one has done its work: the message box, or the chat. */
export const usual = () => [byId("text"), byId("log")].find((one) => isThere(one) && (one.id === "log" || hasKeyboard()));

/** Move the focus, if its element no longer exists. */
function keep(records) {
  const active = document.activeElement;
  if (!held || active === byId("text") || (active !== document.body && isThere(active))) return;
  let from = held;
  for (let layer; !isThere(from.element) && (layer = from.element.closest(LAYERS)) && !isThere(layer) && before.has(layer);) from = before.get(layer);
  if (from.element.isConnected && from.element.disabled) return; // until the result is shown
  const found = isThere(from.element) ? from.element : heir(from, records.flatMap(({ addedNodes }) => [...addedNodes])) ?? usual();
  found?.focus({ preventScroll: true });
  if (found?.matches(":focus-visible")) found.scrollIntoView({ block: "nearest" });
}

document.addEventListener("focusin", ({ target }) => {
  if (target === document.body) return;
  const layer = target.closest(LAYERS);
  if (layer && last && !layer.contains(last.element)) before.set(layer, last);
  last = held = placeOf(target);
}, true);
document.addEventListener("focusout", ({ target, relatedTarget }) => {
  if (relatedTarget) held = null; // on its way to another element
  if (relatedTarget || !document.hasFocus()) return;
  queueMicrotask(() => {
    const records = changes.takeRecords();
    if (records.length || !isThere(target)) keep(records);
    else if (held?.element === target && document.activeElement !== target) held = null; // a person left it
  });
}, true); // before another listener redraws anything
changes.observe(document.body, {
  subtree: true, childList: true, attributes: true, attributeFilter: ["hidden", "disabled", "inert", "open"],
});
