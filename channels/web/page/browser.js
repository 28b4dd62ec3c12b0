// The browser's own parts: the page as an installed application, notifications, the keyboard.
import { byId, h, isPhone } from "./dom.js";
import { t } from "./language.js";
import { recall, remember } from "./storage.js";

const LONGEST = 140; // characters of an answer in a notification
const isMac = /Mac|iPhone|iPad/.test(navigator.platform);
const [main, shift] = isMac ? ["⌘", "⇧"] : [t("Ctrl"), t("Shift")];

/** The shortcuts: their keys and actions. Those without `main` work while no text is being typed. */
export const shortcuts = (page) => [
  { keys: [main, "K"], key: "k", isMain: true, does: t("Search conversations"), act: page.search },
  { keys: [main, shift, "O"], key: "o", isMain: true, isShift: true, does: t("New conversation"), act: page.fresh },
  { keys: [main, "."], key: ".", isMain: true, does: t("Stop the answer"), act: page.stop },
  { keys: ["Alt", "↑"], key: "ArrowUp", isAlt: true, does: t("Conversation above"), act: () => page.step(-1) },
  { keys: ["Alt", "↓"], key: "ArrowDown", isAlt: true, does: t("Conversation below"), act: () => page.step(1) },
  { keys: [main, "B"], key: "b", isMain: true, does: t("Show or hide the conversations"), act: () => page.toggle("sessions") },
  { keys: [main, shift, "B"], key: "b", isMain: true, isShift: true, does: t("Show or hide the context"), act: () => page.toggle("context") },
  { keys: [main, ","], key: ",", isMain: true, does: t("Settings"), act: page.settings },
  { keys: ["/"], key: "/", isShift: null, does: t("Write a message"), act: page.write },
  { keys: ["?"], key: "?", isShift: null, does: t("This list"), act: () => sheet(page) },
];

const written = () => [
  [isPhone() ? [main, "Enter"] : ["Enter"], t("Send")],
  [isPhone() ? ["Enter"] : [shift, "Enter"], t("New line")],
  [["Tab"], t("Complete a command")],
  [["Esc"], t("Close the open dialog")],
];

/** Handle the keys. */
export function listen(page) {
  const known = shortcuts(page);
  addEventListener("keydown", (event) => {
    if (event.isComposing || document.querySelector("dialog[open]")) return;
    const isWriting = event.target.matches?.("input, textarea, select");
    const found = known.find((one) => fits(one, event) && (one.isMain || one.isAlt || !isWriting));
    if (!found) return;
    event.preventDefault();
    found.act();
  });
}

function fits({ key, isMain = false, isShift = false, isAlt = false }, event) {
  return event.key.toLowerCase() === key.toLowerCase() && (isMac ? event.metaKey : event.ctrlKey) === isMain
    && event.altKey === isAlt && (isShift === null || event.shiftKey === isShift);
}

/** Show all shortcuts. */
export function sheet(page) {
  const rows = [...written(), ...shortcuts(page).map(({ keys, does }) => [keys, does])];
  const dialog = byId("dialog");
  dialog.replaceChildren(h("form", { method: "dialog" },
    h("h2", { id: "question" }, t("Keyboard shortcuts")),
    h("dl", { class: "keys" }, rows.map(([keys, does]) => h("div", {}, h("dt", {}, does), h("dd", {}, keys.map((key) => h("kbd", {}, key)))))),
    h("div", { class: "choices" }, h("button", { type: "submit", class: "primary" }, t("Close")))));
  dialog.showModal();
}

const THEMES = { auto: t("System"), light: t("Light"), dark: t("Dark") };

/** The part of the settings for this browser alone. */
export function drawnBrowser(page) {
  const now = document.documentElement.dataset.theme;
  const theme = h("select", { id: "theme" }, Object.entries(THEMES).map(([value, name]) => h("option", { value, selected: value === now }, name)));
  theme.addEventListener("change", () => {
    document.documentElement.dataset.theme = theme.value;
    remember("theme", theme.value);
  });
  const isPossible = "Notification" in window && isSecureContext;
  const wished = h("input", { type: "checkbox", role: "switch", id: "notify", checked: wantsNotices() });
  const why = h("p", { class: "help", id: "notify-help" }, isPossible
    ? t("Shows a notification while this page is in the background.")
    : t("Notifications need https, or a page on this machine."));
  wished.disabled = !isPossible;
  wished.setAttribute("aria-describedby", "notify-help");
  wished.addEventListener("change", async () => {
    if (wished.checked && await Notification.requestPermission() !== "granted") {
      wished.checked = false;
      why.textContent = t("Your browser blocks notifications from this page; allow them in its settings.");
    }
    remember("notify", wished.checked ? "yes" : "");
  });
  return h("ul", { id: "browser" },
    h("li", {}, h("label", { for: "theme" }, t("Colours")), h("span", { class: "value" }, theme)),
    h("li", {}, h("label", { for: "notify" }, t("Notify me when an answer is ready")), h("span", { class: "value" }, wished), why),
    h("li", {}, h("span", {}, t("Keyboard")), h("span", { class: "value" }, h("button", { type: "button", onclick: () => sheet(page) }, t("Show shortcuts")))),
    h("li", {}, h("span", {}, "Parley"), h("span", { class: "value", id: "version" })));
}

const wantsNotices = () => "Notification" in window && Notification.permission === "granted" && recall("notify") === "yes";

/** Notify of an answer if the page is not visible. */
export async function announce(title, text, address = location.href) {
  if (!document.hidden || !wantsNotices()) return;
  const body = text.replaceAll(/[*`#>]/g, "").replaceAll(/\s+/g, " ").trim();
  const options = {
    body: body.length > LONGEST ? `${body.slice(0, LONGEST)}…` : body,
    icon: "/page/icon-192.png",
    tag: address, // a new answer replaces the previous one
    data: address,
  };
  const registration = await navigator.serviceWorker?.getRegistration();
  if (registration?.active) await registration.showNotification(title, options);
  else new Notification(title, options).onclick = () => window.focus();
}

/** Let the page open while the bot is unreachable. */
export function keepPage() {
  navigator.serviceWorker?.register("/worker.js").catch(console.warn);
}
