// HTML that the server has made and sanitised, prepared for the page.
import { h } from "./dom.js";
import { t } from "./language.js";

const MANY = 4; // columns that fit on a phone
const LONG = /(\S{37,})/; // no word that must stay in one piece in a table, but an address or a key

/** An element with cleaned HTML: code can be copied, what is wide scrolls, each paragraph runs in
    its own direction. */
export function cleaned(html) {
  return h("div", { class: "text" }, ...partsOf(html));
}

/** A sentence of the bot as nodes: text in backticks is code. */
export const withCode = (sentence) => sentence.split("`").map((part, at) => (at % 2 ? h("code", {}, part) : part));

/** A text in which no line ends after the hyphens of an option. */
export const withOptions = (text) => text.split(/(--?\w[\w-]*)/).map((part, at) => (at % 2 ? h("span", { class: "option" }, part) : part));

/** The nodes of a piece of sanitised HTML. */
export function partsOf(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  const { content } = template;
  for (const code of content.querySelectorAll("code.language-diff")) colour(code);
  for (const block of content.querySelectorAll("pre")) frame(block);
  for (const table of content.querySelectorAll("table")) {
    const wide = h("div", { class: "table", tabindex: 0, role: "group", "aria-label": t("Table") });
    table.replaceWith(wide);
    wide.append(table);
    head(table);
    loosen(table);
  }
  for (const block of content.children) if (!block.matches(".code")) block.dir = "auto"; // and what is in it: messages.css
  link(content);
  return [...content.childNodes];
}

/** Give the cells of a table with many columns their headings, which a narrow window shows above each. */
function head(table) {
  const [names, ...rows] = [...table.rows].map(({ cells }) => [...cells]);
  table.classList.toggle("many", names.length > MANY);
  for (const cells of names.length > MANY ? rows : []) {
    cells.forEach((cell, at) => { cell.dataset.heading = names[at]?.textContent ?? ""; });
  }
}

/** Let words too long for a column wrap, or they leave no space for the other columns. */
function loosen(table) {
  const texts = document.createTreeWalker(table, NodeFilter.SHOW_TEXT);
  const long = [];
  while (texts.nextNode()) if (LONG.test(texts.currentNode.data)) long.push(texts.currentNode);
  for (const text of long) {
    text.replaceWith(...text.data.split(LONG).flatMap((piece, at) => (at % 2 ? piece.match(/.{1,12}/gsu).flatMap((part) => [part, h("wbr")]) : piece)));
  }
}

const slug = (heading) => heading.textContent.trim().toLowerCase().replaceAll(/[^\p{L}\p{N}\s_-]/gu, "").replaceAll(/\s/g, "-");

/** Footnotes and headings are reached by links within their text: the page has many with the same names. */
function link(content) {
  for (const target of content.querySelectorAll("[id^=fn]")) {
    target.dataset.note = target.id;
    target.removeAttribute("id");
  }
  for (const heading of content.querySelectorAll("h1, h2, h3, h4, h5, h6")) heading.dataset.note = slug(heading);
  for (const anchor of content.querySelectorAll("a[href^='#']")) {
    anchor.removeAttribute("target");
    anchor.addEventListener("click", (event) => {
      event.preventDefault(); // otherwise the page would read it as the name of a conversation
      const there = anchor.closest(".text").querySelector(`[data-note="${CSS.escape(nameIn(anchor))}"]`);
      if (!there) return;
      there.scrollIntoView({ block: there.matches("li, a") ? "nearest" : "start" });
      const end = there.matches("li") ? there.querySelector("a") : there;
      if (end.tabIndex < 0) end.tabIndex = -1; // a heading
      end.focus({ preventScroll: true });
    });
  }
}

/** The name of the target of a link within a text. */
function nameIn(anchor) {
  const name = anchor.getAttribute("href").slice(1);
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** A frame around code: its language, and a button to copy it. */
function frame(block) {
  const language = block.querySelector("code")?.className.match(/language-(\S+)/)?.[1] ?? "";
  block.tabIndex = 0; // a long line is scrolled with the keyboard, too
  block.dir = "ltr";
  const around = h("div", { class: "code" }, h("header", {},
    h("span", {}, language), copying(block.textContent)));
  block.replaceWith(around);
  around.append(block);
}

/** The lines of a diff, each coloured by its sign. */
function colour(code) {
  const kinds = { "+": "added", "-": "removed" };
  const lines = code.textContent.split("\n").map((line, at, all) => (
    h("span", { class: kinds[line[0]] }, at < all.length - 1 ? `${line}\n` : line)
  ));
  code.replaceChildren(...lines);
}

/** Copy a text to the clipboard; an insecure page can do so only in the old way. */
export async function copied(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const before = document.activeElement;
  const area = h("textarea", { class: "hidden" });
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  return before?.focus();
}

/** A button that copies a text. */
export function copying(text, label = t("Copy")) {
  const button = h("button", { type: "button", class: "copy" }, label);
  button.addEventListener("click", async () => {
    await copied(text);
    button.textContent = t("Copied");
    setTimeout(() => { button.textContent = label; }, 1500);
  });
  return button;
}
