// Building the page. Text is always text; HTML comes only from the server, which has sanitised it.
import { locale, t } from "./language.js";

/** An element: h("button", {class: "icon", onclick: f}, "Send", otherElement). */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null && child !== false));
  return element;
}

// A button that is busy keeps the focus, which it would lose if it were disabled.
document.addEventListener("click", (event) => {
  if (!event.target.closest?.("[aria-disabled=true]")) return;
  event.preventDefault();
  event.stopImmediatePropagation();
}, true);

/** A screen without a keyboard: a small window next to others has one. */
export const phone = matchMedia("(pointer: coarse), (max-width: 480px)");
export const isPhone = () => phone.matches;

export const byId = (id) => document.getElementById(id);

const LONGEST_PRESS = 1000; // milliseconds; some systems never report the release, under their own menu
let release = Promise.resolve();
document.addEventListener("pointerdown", ({ button }) => {
  if (button !== 0) return;
  release = new Promise((resolve) => {
    const over = () => setTimeout(resolve); // after its click has been handled
    for (const kind of ["pointerup", "pointercancel"]) addEventListener(kind, over, { once: true, capture: true });
    setTimeout(resolve, LONGEST_PRESS);
  });
}, true);

/** Resolves when nothing is held down: a button that is replaced between press and release hears no
    click. To be awaited before buttons are drawn anew because of something that happened elsewhere. */
export const released = () => release;

/** Return a function that begins a piece of work and returns whether none was begun after it: what comes late is
    not drawn over what a person has asked for since. */
export function latest() {
  let count = 0;
  return () => {
    const own = count += 1;
    return () => own === count;
  };
}

/** Return whether a person is writing in a box. */
export const isWritingIn = (box) => box.querySelector(":focus:is(textarea, input:not([type=checkbox]), select)") !== null;

/** Give an element these children, unless it has them: one that is put in again loses a press or a selection in it. */
export function fill(element, ...wanted) {
  if (wanted.length !== element.childNodes.length || wanted.some((one, at) => one !== element.childNodes[at])) element.replaceChildren(...wanted);
}

/** Start a new task for the following code, so that no single one blocks the page for long. */
export const nextTask = () => new Promise((resolve) => setTimeout(resolve));

const forms = new Map(); // by number: the first of a kind takes a browser some milliseconds

function written(number, digits, options) {
  const name = JSON.stringify([digits, options]);
  if (!forms.has(name)) forms.set(name, new Intl.NumberFormat(locale, { maximumFractionDigits: digits, ...options }));
  return forms.get(name).format(number);
}

const short = (number) => written(number, 1);
const dollars = (number, digits) => written(number, digits, { style: "currency", currency: "USD", currencyDisplay: "narrowSymbol", minimumFractionDigits: digits });

/** Tokens as people read them: 950, 12.4k, 1.5M. */
export function amount(number) {
  if (number < 1000) return short(number);
  const [size, letter] = number < 999_950 ? [1e3, "k"] : [1e6, "M"];
  return short(number / size) + letter;
}

/** US dollars, as in /usage: $0, <$0.0001, $0.0012, $1.50; "1,50 $" in German. */
export function money(cost) {
  if (!cost) return dollars(0, 0);
  if (cost < 0.0001) return `<${dollars(0.0001, 4)}`;
  return dollars(cost, cost < 0.1 ? 4 : 2);
}

/** A time as date and time, or as time of day. */
export const moment = (at) => new Date(at).toLocaleString(locale, { dateStyle: "medium", timeStyle: "short" });
export const timeOf = (at) => new Date(at).toLocaleTimeString(locale, { hour: "2-digit", minute: "2-digit" });

/** Ask for confirmation; resolves to the typed text (or "yes"), or null. `isFinal`: it cannot be undone. */
export function asked({ question, label, value, action = "OK", secret = false, isFinal = false }) {
  const dialog = byId("dialog");
  const field = label && h("input", { type: secret ? "password" : "text", "aria-label": label, value: value ?? "" });
  const form = h("form", { method: "dialog" },
    h("h2", { id: "question" }, question), field,
    h("div", { class: "choices" },
      h("button", { type: "submit", value: "", formnovalidate: true }, t("Cancel")),
      h("button", { type: "submit", value: "yes", class: isFinal ? "primary final" : "primary" }, action)));
  // Enter in the field presses the first button of a form, which here is Cancel.
  field?.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    dialog.close("yes");
  });
  dialog.replaceChildren(form);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const isYes = dialog.returnValue && form.isConnected; // or another question replaced it
      resolve(isYes ? field?.value ?? "yes" : null);
    }, { once: true });
  });
}

/** A picture, enlarged. */
export function shown(address, words) {
  const dialog = byId("dialog");
  dialog.replaceChildren(h("form", { method: "dialog", class: "picture" },
    h("h2", { id: "question" }, words),
    h("img", { src: address, alt: words }),
    h("div", { class: "choices" }, h("button", { type: "submit", class: "primary" }, t("Close")))));
  dialog.showModal();
}
