// The columns beside the chat: on a wide window each can be collapsed, which this browser remembers;
// on a small one they are drawers.
import { byId } from "./dom.js";
import { remember } from "./storage.js";

const root = document.documentElement;
const collapsed = () => new Set((root.dataset.collapsed ?? "").split(" ").filter(Boolean));
const isDrawer = (side) => getComputedStyle(side).position === "fixed";
const openers = (name) => [...document.querySelectorAll(`[data-opens=${name}]`)];

const isShown = (side) => (isDrawer(side) ? side.classList.contains("open") : !collapsed().has(side.id));

/** Show a side and focus it, or hide it. */
export function show(name, is = true) {
  const side = byId(name);
  const left = side.contains(document.activeElement);
  if (isDrawer(side)) {
    side.classList.toggle("open", is);
    watch(side, is);
  } else {
    const all = collapsed();
    all[is ? "delete" : "add"](name);
    root.dataset.collapsed = [...all].join(" ");
    remember("collapsed", root.dataset.collapsed);
  }
  told();
  if (is) ([...side.querySelectorAll("button, input, summary")].find((one) => one.checkVisibility({ visibilityProperty: true }) && one.tabIndex >= 0) ?? side).focus();
  else if (left) openers(name).find((one) => one.checkVisibility())?.focus();
}

const watchers = new Map(); // of open drawers

/** Let the Back of a phone close an open drawer, if the browser reports it. */
function watch(side, is) {
  watchers.get(side)?.destroy();
  watchers.delete(side);
  if (!is || !window.CloseWatcher) return;
  const watcher = new CloseWatcher();
  watcher.onclose = () => show(side.id, false);
  watchers.set(side, watcher);
}

export const toggle = (name) => show(name, !isShown(byId(name)));

/** Close the open drawers; a side that is a column stays. */
export function close() {
  for (const side of document.querySelectorAll(".side.open")) {
    if (isDrawer(side)) show(side.id, false);
    else side.classList.remove("open");
  }
}

/** Show at each button whether its side is visible. */
function told() {
  for (const side of document.querySelectorAll(".side")) {
    for (const button of openers(side.id)) button.setAttribute("aria-expanded", String(isShown(side)));
  }
}

document.addEventListener("click", ({ target }) => {
  const opener = target.closest?.("[data-opens]");
  if (opener) toggle(opener.dataset.opens);
});
for (const button of document.querySelectorAll("[data-closes]")) {
  button.addEventListener("click", () => show(button.dataset.closes, false));
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) close();
});
let isTab = false; // the pressed key
for (const kind of ["keydown", "keyup"]) document.addEventListener(kind, ({ key }) => { isTab = kind === "keydown" && key === "Tab"; }, true);
for (const kind of ["click", "focusin"]) { // a drawer would cover it
  document.querySelector("main").addEventListener(kind, (event) => {
    const opens = event.target.closest("[data-opens], #menu");
    if (!opens || (kind === "focusin" && isTab)) close();
  });
}
addEventListener("resize", told);
told();
