// The page's own words in the language of the person, as far as the bot has said which that is, else of
// the browser; what has no translation is English.
// Messages are never looked up: `t` is for the page's words alone.
import { keeps, recall, remember } from "./storage.js";

const theirs = recall("language");
const isEnglish = (theirs || navigator.language || "en").toLowerCase().startsWith("en");
const none = { language: "en", words: {} };
const { language, words } = isEnglish ? none
  : await fetch(theirs ? `/words.json?language=${encodeURIComponent(theirs)}` : "/words.json")
    .then((response) => response.json()).catch(() => none);

/** Reload if the person's language differs from the one in which the page was opened. */
export function speak(wanted) {
  if (wanted === language) return;
  const before = recall("language");
  remember("language", wanted);
  if (before !== wanted && keeps("language")) location.reload(); // otherwise it would reload endlessly
}

/** A text of the page, with values for its placeholders: t("{name}: sign out", { name }). */
export function t(text, values = {}) {
  return (words[text] ?? text).replace(/\{(\w+)\}/g, (place, name) => values[name] ?? place);
}

/** The same in pieces; values of placeholders may be elements. */
export const pieces = (text, values) => (words[text] ?? text).split(/\{(\w+)\}/).map((piece, at) => (at % 2 ? values[piece] : piece));

/** The punctuation between combined texts: that of Chinese is as wide as its letters, without a space behind. */
export const marks = language === "zh" ? { comma: "，", colon: "：", space: "" } : { comma: ", ", colon: ": ", space: " " };

/** The format of numbers and dates: this browser's, unless the page's language is another. */
export const locale = navigator.language.split("-")[0] === language.split("-")[0] ? navigator.language : language;

/** The state that needs no mark. */
export const isUsual = (state) => state === "in context";

const STATES = {
  "in context": t("in context"), running: t("running"), pinned: t("pinned"), shortened: t("shortened"), clipped: t("clipped"),
  "tool results shortened": t("tool results shortened"), "in the log": t("in the log"), summarised: t("summarised"), cleared: t("cleared"),
  dropped: t("dropped"), gone: t("gone"),
};
const CHANGES = {
  compact: t("Compaction"), clear: t("Context cleared"), new: t("New start"), drop: t("Dropped"), pin: t("Pinned"), unpin: t("Unpinned"),
  undo: t("Undo"), redo: t("Redo"), restart: t("Restart"), edit: t("Edited summary"), expand: t("Expanded summary"), range: t("New summary"),
  squeeze: t("Shortened turns"), clip: t("Clipped messages"), stub: t("Shortened tool results"), fold: t("Moved to the activity log"),
  unfold: t("Moved out of the activity log"), hold: t("Compaction declined"), strategy: t("New strategy"), prompt: t("System prompt or tools changed"),
};

const PARTS = {
  "system prompt": t("system prompt"), "standing instructions": t("standing instructions"), memory: t("memory"), tools: t("tools"), summary: t("summary"), "activity log": t("activity log"),
  "summaries of turns": t("summaries of turns"), turns: t("turns"), "running turn": t("running turn"), free: t("free"),
};
const ACTORS = { strategy: t("automatic"), rule: t("by a hook rule"), person: t("by you"), emergency: t("automatic, the request was too large"), restart: t("restart") };

const TOLD = {
  "demo model": t("demo model"), "demo model (135M)": t("demo model"), "Loading the demo model …": t("Loading the demo model …"), "The demo model is ready.": t("The demo model is ready."),
};

/** Translate a line that the bot sends to everyone in English, or the name of its own model. */
export const told = (text) => TOLD[text] ?? text;

/** Names of the parts of the context, of the authors of changes, of states of turns, and of changes. */
export const nameOfPart = (part) => PARTS[part] ?? part;
export const nameOfActor = (actor) => ACTORS[actor] ?? actor;
export const nameOfState = (state) => STATES[state] ?? state;
export const nameOfEvent = (kind) => CHANGES[kind] ?? kind;

/** The turns that an event is about, and its name with them. */
export const spanOf = ({ turns }) => (turns.length > 2 ? t("{first} to {last}", { first: turns[0], last: turns.at(-1) }) : turns.join(marks.comma));
export const titleOf = (event) => `${nameOfEvent(event.kind)} ${spanOf(event)}`.trimEnd();

/** Translate the page's HTML, before it contains texts of people. */
function translate(root) {
  for (const element of root.querySelectorAll("*")) {
    for (const name of ["aria-label", "placeholder", "title", "data-away"]) {
      if (element.hasAttribute(name)) element.setAttribute(name, t(element.getAttribute(name)));
    }
    for (const node of element.childNodes) {
      const text = node.nodeType === Node.TEXT_NODE && node.data.trim().replace(/\s+/g, " ");
      if (text && words[text]) node.data = node.data.replace(node.data.trim(), words[text]);
    }
  }
}

if (language !== "en") {
  document.documentElement.lang = language;
  translate(document.body);
}
