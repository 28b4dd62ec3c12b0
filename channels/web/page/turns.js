// A turn from the transcript: the question, thoughts and actions, the answer.
import { h, timeOf } from "./dom.js";
import { acts } from "./acts.js";
import { saidFiles } from "./files.js";
import { t } from "./language.js";
import { cleaned, withCode } from "./text.js";

/** Messages in order, as [turn, messages] pairs. */
export function turnsOf(messages) {
  const turns = new Map();
  for (const message of messages) {
    if (!turns.has(message.turn)) turns.set(message.turn, []);
    turns.get(message.turn).push(message);
  }
  return [...turns];
}

/** `page` has the actions of the row below it; without one it has none. */
export function drawnTurn([turn, messages], page) {
  const last = messages.at(-1);
  const isOpen = last.role !== "assistant" || last.calls.length > 0;
  const results = messages.filter((message) => message.role === "tool");
  const drawn = messages.flatMap((message) => {
    if (message.role === "user") return question(message.text, saidFiles(message.files));
    if (message.role !== "assistant") return [];
    const done = message.calls.map((name) => [name, results.shift()]);
    const tools = done.flatMap(([name, one]) => [toolLine(result(name, one)), ...saidFiles(one?.files ?? [])]);
    return [message.reasoning && thoughts(message.reasoning), message.html && cleaned(message.html),
      message.notice && ending(turn, message, page), ...tools, ...saidFiles(message.files)];
  });
  return h("article", { class: "turn", "data-turn": turn, "data-open": isOpen }, ...drawn,
    h("footer", {},
      h("span", { class: "between" }),
      h("span", { class: "id" }, turn), " ",
      h("time", { datetime: messages[0].at }, timeOf(messages[0].at)), " ",
      h("span", { class: "state" }),
      isOpen ? null : acts(turn, written(messages), page)));
}

/** Return the text that the model wrote in a turn, unchanged. */
const written = (messages) => messages.filter(({ role }) => role === "assistant")
  .map(({ text, notice }) => (notice ? text.slice(0, text.lastIndexOf(`(${notice})`)) : text).trim())
  .filter(Boolean).join("\n\n");

/** Return the bot's sentence about the end of a turn: a failure can be retried. */
function ending(turn, { mark, notice }, page) {
  if (mark !== "failed") return h("p", { class: "ending" }, ...withCode(notice));
  return h("div", { class: "ending failed" }, h("p", {}, ...withCode(notice)),
    h("button", { type: "button", onclick: () => page.retry(turn) }, t("Retry")));
}

const result = (name, message) => ({
  tool: name,
  state: !message ? "running" : message.is_denied ? "denied" : message.is_error ? "failed" : "done",
  text: message?.text,
});

export const question = (text, extras = []) => h("div", { class: "question", dir: "auto" }, text, ...extras);

/** Return the thoughts before the answer, folded. */
export const thoughts = (text) => h("details", { class: "thoughts" },
  h("summary", {}, t("Reasoning")), h("div", { dir: "auto", tabindex: 0 }, text));

export const waiting = () => h("p", { class: "waiting" }, h("span", { class: "hidden" }, t("Waiting for the answer")),
  ...[1, 2, 3].map(() => h("span", { class: "dot", "aria-hidden": "true" })));

export function toolLine({ tool, state, text, arguments: given }) {
  const words = { running: t("in progress"), done: t("was used"), failed: t("failed"), denied: t("was not allowed") }[state];
  const head = [h("code", {}, tool), h("span", { class: "state" }, ` ${words}`), state === "running" && h("span", { class: "asks" }, ` ${t("waits for your answer")}`)];
  const more = text ?? given;
  return more
    ? h("details", { class: `tool ${state}` }, h("summary", {}, ...head), h("pre", { tabindex: 0 }, more))
    : h("p", { class: `tool ${state}` }, ...head);
}
