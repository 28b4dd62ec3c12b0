// Files: those attached to a message, those that came with one, and those of the workspace.
import * as api from "./api.js";
import { byId, h, latest, moment } from "./dom.js";
import { icon } from "./icons.js";
import { locale, t } from "./language.js";

const PREVIEWED = 200_000; // bytes of a text that are shown

/** Bytes as people read them, rounded up. */
export function bytes(number) {
  if (number < 1e6) return `${Math.ceil(number / 1e3)} kB`;
  return `${(Math.ceil(number / 1e5) / 10).toLocaleString(locale)} MB`;
}

const isPicture = (type) => /^image\/(png|jpeg|gif|webp)$/.test(type);

/** Files being sent, as pictures and cards. */
export const drawnFiles = (files) => attached(files.map(({ name, media_type: type, blob }) => (isPicture(type)
  ? thumbnail(local(blob), name)
  : card(name, bytes(blob.size)))));

/** A thumbnail of an attached file; null for a file that is no picture. */
export const preview = ({ name, media_type: type, blob }) => (isPicture(type) ? thumbnail(local(blob), name, null) : null);

/** Files that came with a message, by their names in the transcript. */
export const saidFiles = (files) => attached(files.map(({ name, address, is_picture: isPicture, size }) => (isPicture
  ? thumbnail(address, name || t("Picture"))
  : card(name, size, address, isSound(name) && player(name, address)))));

const isSound = (name) => /\.(aac|flac|m4a|mp3|oga|ogg|opus|wav|weba)$/i.test(name) || name === "voice.webm";

/** A sound can be played in its place, unless this browser can't play it. */
function player(name, address) {
  const sound = h("audio", { src: address, controls: true, preload: "none", "aria-label": t("Listen to {name}", { name }) });
  sound.addEventListener("error", () => sound.remove());
  return sound;
}

const attached = (items) => (items.length ? [h("div", { class: "attached" }, items)] : []);

/** A temporary address of data in this browser, until it is loaded. */
const local = (blob) => URL.createObjectURL(blob);

function thumbnail(address, name, instead = card(name || t("Picture"), t("can't be shown"))) {
  const picture = h("img", { src: address, alt: name, title: name, loading: "lazy" });
  const button = h("button", { type: "button", class: "thumbnail", "aria-label": t("Show {name}", { name }), onclick: () => shown(picture.src, name) }, picture);
  picture.addEventListener("error", () => (instead ? button.replaceWith(instead) : button.remove()));
  return button;
}

function card(name, size, address, extra = null) {
  return h("span", { class: "file" },
    h("span", { class: "kind", "aria-hidden": "true" }, ending(name)),
    h("span", { class: "name", dir: "auto" }, name, h("small", { dir: "ltr" }, size)),
    extra, address && actions(name, address));
}

const ending = (name) => (name.match(/\.(\w{1,4})$/)?.[1] ?? t("file")).toLowerCase();

const actions = (name, address) => [
  h("button", { type: "button", class: "icon", title: t("Preview"), "aria-label": t("Preview {name}", { name }), onclick: () => previewed(name, address) }, icon("look")),
  h("a", { class: "icon", href: address, download: name.split("/").at(-1), title: t("Download"), "aria-label": t("Download {name}", { name }) }, icon("download")),
];

/** Show the beginning of a file, if it is text or a picture. */
async function previewed(name, address) {
  const response = await fetch(address).catch(() => null);
  if (!response?.ok) return tell(name, h("p", {}, response?.status === 404 ? t("This file is not there any more.") : t("The file can't be read now; try again in a moment.")), null);
  const type = response.headers.get("Content-Type");
  if (isPicture(type)) return shown(address, name);
  const blob = await response.blob();
  const text = await blob.slice(0, PREVIEWED).text();
  const body = text.includes("\0") || text.includes("\ufffd\ufffd")
    ? h("p", {}, t("This file is not text, so it can't be shown here; download it."))
    : h("pre", { tabindex: 0 }, text, blob.size > PREVIEWED ? "\n…" : "");
  return tell(name, body, address);
}

const shown = (address, name) => tell(name, h("img", { src: address, alt: name }), address.startsWith("blob:") ? null : address);

function tell(name, body, address) {
  const dialog = byId("dialog");
  if (dialog.open) return; // it was opened while the file was being read
  dialog.replaceChildren(h("form", { method: "dialog", class: "picture" },
    h("h2", { id: "question" }, name), body,
    h("div", { class: "choices" },
      address && h("a", { class: "button", href: address, download: name.split("/").at(-1) }, t("Download")),
      h("button", { type: "submit", class: "primary" }, t("Close")))));
  dialog.showModal();
}

/** The workspace of the open session: its list for the panel, and its limits. */
export class Files {
  limits = null; // {files, file_bytes, bytes}

  element = h("section", { id: "workspace" }, none());
  #onLimits;
  #begin = latest();

  constructor(onLimits) {
    this.#onLimits = onLimits;
  }

  async refresh(session) {
    const isLatest = this.#begin();
    const found = await api.files(session).catch(() => null); // what can't be reached is said elsewhere
    if (!found || !isLatest()) return;
    this.limits = found.limits;
    this.#onLimits(found.limits);
    this.element.replaceChildren(found.files.length ? h("ul", { class: "workspace" }, found.files.map(({ name, address, size, at }) => h("li", {},
        h("span", { class: "name" }, name),
        h("small", { class: "faint" }, `${bytes(size)} · ${moment(at)}`),
        actions(name, address)))) : none());
  }
}

const none = () => h("p", { class: "help" }, t("No files yet. Attach some to a message, or ask the model to make one."));

/** Return why these files can't be added to a message that already has some; "" if they can. */
export function complaint(limits, there, more) {
  if (!limits) return "";
  const all = [...there, ...more];
  if (all.length > limits.files) return t("A message can have {files} files; these are {n}.", { files: limits.files, n: all.length });
  const large = more.find(({ blob }) => blob.size > limits.file_bytes);
  if (large) return t("{name} is {size}; a file can be up to {most}.", { name: large.name, size: bytes(large.blob.size), most: bytes(limits.file_bytes) });
  const sum = all.reduce((size, { blob }) => size + blob.size, 0);
  return sum > limits.bytes ? t("The files of a message can be {bytes} together; these are {sum}.", { bytes: bytes(limits.bytes), sum: bytes(sum) }) : "";
}
