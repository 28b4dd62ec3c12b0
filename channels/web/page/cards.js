// The answer of a command: a card with its buttons, which can be closed.
import { asked, h, shown } from "./dom.js";
import { iconButton } from "./acts.js";
import { approval, waitsFor } from "./approval.js";
import { t } from "./language.js";
import { cleaned } from "./text.js";

const ANSWERS = /^\/(approve|deny|context (approve|decline))\b/; // these answer a question
const BACK = "/private off"; // the bar above the chat offers it
const REFUSED = "command_refused"; // the server's name for it: the text says what to do instead

/** A card. `run` carries a command out and returns its answer, null if it could not; `ask` does so
    for one that changes nothing. */
export function card(line, reply, run, ask) {
  const pictures = reply.images.map((address) => h("img", { src: address, alt: t("The picture in this reply"),
    onclick: () => shown(address, line) }));
  const actions = reply.actions.filter(({ command }) => command !== BACK);
  const buttons = actions.map((action) => h("button", { type: "button", title: /\bundo\b/.test(action.command) ? t("Undo: {kind}", { kind: plain(reply.text) }) : null, "data-question": action.question, onclick: () => press(action) }, action.label));
  const choices = buttons.length ? h("div", { class: "choices" }, ...buttons) : null;
  const isRefused = reply.problem === REFUSED;
  const element = h("section", { class: `card${isRefused ? " refused" : reply.problem ? " problem" : ""}`, "aria-label": line || t("Reply") },
    h("header", {}, line && h("p", { class: "line" }, line),
      iconButton("close", t("Close"), () => element.remove())),
    isRefused && h("p", { class: "verdict" }, t("Not done")),
    Array.isArray(reply.data?.compared) ? compared(cleaned(reply.html), reply.data.compared) : cleaned(reply.html), ...pictures,
    reply.form && field(reply.form, async (written) => {
      const saved = await run(written);
      if (saved) element.remove(); // the requested text was saved
      return saved;
    }),
    choices);
  const buttonsOf = (name) => buttons.filter((_, at) => lastWord(actions[at].command) === name);
  const waiting = ask && waitsFor(reply);
  const isOpen = () => buttonsOf(waiting).some((button) => button.isConnected && !button.ariaDisabled);
  if (waiting) approval(element, waiting, { run, ask, isOpen });
  async function press({ label, command, asks_first: asksFirst }) {
    if (asksFirst && await asked({ question: t("{label}: are you sure?", { label }), action: label }) === null) return;
    const isAnswer = ANSWERS.test(command);
    const same = buttonsOf(lastWord(command)); // one of several questions
    for (const button of same) button.ariaDisabled = isAnswer || null;
    const answer = await run(command, { isQuiet: isAnswer });
    if (!isAnswer) return;
    if (answer) {
      same.pop().replaceWith(h("p", { class: "faint" }, plain(answer.text)));
      for (const button of same) button.remove();
    } else for (const button of same) button.ariaDisabled = null;
  }
  return element;
}

/** A question is over: its result replaces its buttons. */
export function settle(log, name, how) {
  const cards = new Map();
  for (const button of log.querySelectorAll(`.card button[data-question="${CSS.escape(name)}"]`)) {
    const card = button.closest(".card");
    cards.set(card, [...(cards.get(card) ?? []), button]);
  }
  for (const buttons of cards.values()) {
    buttons.pop().replaceWith(h("p", { class: "faint" }, how));
    for (const button of buttons) button.remove();
  }
}

/** Texts next to each other, each below its title. */
function compared(text, titles) {
  const sides = [];
  for (const block of [...text.children]) {
    if (block.textContent === titles[sides.length]?.title) sides.push(h("div"));
    (sides.at(-1) ?? text).append(block);
  }
  text.append(h("div", { class: "compared" }, sides));
  return text;
}

/** The buttons below a failed answer, except for the one to retry, which each such turn has. */
export const waysOn = (actions, run) => actions.filter(({ command }) => !/^\/retry\b/.test(command)).map(({ label, command, asks_first: asksFirst }) =>
  h("button", { type: "button", onclick: async () => {
    if (!asksFirst || await asked({ question: t("{label}: are you sure?", { label }), action: label }) !== null) await run(command);
  } }, label));

/** Notes of the bot below an answer: the question whether to keep a rule, for example, which goes when it was
    answered. `said` is the answer itself. */
export function asides({ text, html, actions }, said, run) {
  const lines = (text.startsWith(said) ? text.slice(said.length) : text).split("\n\n").filter((line) => line.trim());
  const quotes = [...cleaned(html).querySelectorAll(":scope > blockquote")].slice(-lines.filter(isQuote).length);
  const element = h("div", { class: "asides" }, ...lines.map((line, at) => (isQuote(line)
    ? h("div", { class: "text" }, quotes.shift())
    : h("p", { dir: "auto" }, isQuote(lines[at + 1]) ? line : plain(line)))));
  const buttons = actions.map(({ label, command }) => h("button", { type: "button", onclick: async () => {
    if (!await run(command)) return;
    buttons.forEach((button, at) => lastWord(actions[at].command) === lastWord(command) && button.remove());
    if (!element.querySelector("button")) element.remove();
  } }, label));
  if (buttons.length) element.append(h("div", { class: "choices" }, ...buttons));
  return element;
}

const isQuote = (line) => line?.startsWith("> ");

/** Return the name that the buttons of one question share. */
const lastWord = (line) => line.replace(/ once$/, "").split(" ").at(-1);

/** The first sentence or so of a text in Markdown, plain. */
export const plain = (text) => text.split("\n")[0].replaceAll(/[*`]/g, "")
  .replace(/([.!?]) (?:(?![.!?] ).)*:$/, "$1"); // a last sentence that introduces a list

/** A field for the text that a reply asks for, with the current value. */
export function field({ command, text }, run, { label = t("Text for {command}", { command }), action = t("Save"), left = () => {} } = {}) {
  const area = h("textarea", { class: "answer", dir: "auto", rows: Math.min(16, text.split("\n").length + 2), "aria-label": label });
  area.value = text;
  const form = h("form", { class: "field" }, area, h("div", { class: "choices" },
    h("button", { type: "button", onclick: () => { form.remove(); left(); } }, t("Cancel")),
    h("button", { type: "submit", class: "primary" }, action)));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const written = area.value.trim();
    if (!written) return area.focus();
    form.toggleAttribute("inert", true);
    if (await run(`${command} ${written}`)) form.remove();
    else form.toggleAttribute("inert", false); // the typed text is kept
    return undefined;
  });
  return form;
}
