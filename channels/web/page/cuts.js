// The line across the chat at which turns were removed from the context, and the summary that replaces them.
import { card } from "./cards.js";
import { h, latest } from "./dom.js";
import { t, titleOf } from "./language.js";
import { cleaned } from "./text.js";

const SAID = { summarised: t("summarised"), cleared: t("cleared"), gone: t("out of the context"), "in the log": t("in the activity log, a line each") };
const MOVES = ["undo", "redo"];

/** Draw the lines into the log; existing ones, and what is open in them, stay behind their turns. */
export function cuts(log, { runs = [], events = [], overview = {} }, page) {
  const wanted = new Map();
  const undone = events.filter((event) => event.undone && event.kind === "edit").length; // an open card has another summary then
  for (const run of runs) {
    const place = SAID[run.state[0]] && placeOf(log, run);
    if (!place) continue;
    const event = events.findLast(({ undone, kind, turns }) => !undone && !MOVES.includes(kind) && turns.includes(`t${run.last}`));
    wanted.set([run.first, run.last, run.state[0], event?.id, undone, isReplaced(run, overview)].join(), { run, event, place });
  }
  for (const line of log.querySelectorAll(".cut")) {
    const kept = wanted.get(line.dataset.cut);
    if (!kept) line.remove();
    else if (line.previousElementSibling !== kept.place) kept.place.after(line); // the turn was redrawn
    wanted.delete(line.dataset.cut);
  }
  for (const [key, { run, event, place }] of wanted) {
    place.after(drawn(key, run, event, overview, page));
  }
}

/** The turn behind which the line is; null if it is not shown. */
const placeOf = (log, { last }) => log.querySelector(`.turn[data-turn=t${last}]`);

const isInPlace = (inPlace, last) => inPlace.some((turns) => turns.includes(`t${last}`));

/** Return whether a summary replaces these turns; at times it is written only after they were removed. */
const isReplaced = ({ last, state: [state] }, { summarised_in_place: inPlace = [], preface }) => state === "summarised" && (Boolean(preface) || isInPlace(inPlace, last));

/** The name of the summary that replaces a turn; "" while it is being written. */
async function nameOf(turn, page) {
  const found = (await page.ask("/context summaries"))?.data?.summaries ?? [];
  return found.find(({ place, turns }) => place === "at its position" && turns.includes(turn))?.name ?? "";
}

function drawn(key, run, event, overview, page) {
  const { first, last, state: [state] } = run;
  const { summarised_in_place: inPlace = [], preface, preface_html: html } = overview;
  const isOne = first === last;
  const below = h("div", {});
  const begin = latest();
  const button = (label, onclick, title) => h("button", { type: "button", onclick, title, "aria-label": title }, label);
  const isInside = isInPlace(inPlace, last);
  const tell = (reply) => {
    const told = card("", reply, save);
    below.replaceChildren(told);
    const area = told.querySelector("textarea");
    area?.setSelectionRange(0, 0); // a long text is shown from its beginning
    area?.focus();
    told.scrollIntoView({ block: "nearest" });
  };
  const save = async (line) => { // the result is shown where it was written
    const reply = await page.run(line, { isQuiet: true });
    if (reply) tell(reply);
    return reply;
  };
  const show = async (line) => {
    if (below.firstChild && below.dataset.line === line) return below.replaceChildren();
    below.dataset.line = line;
    const isLatest = begin();
    const reply = await page.ask(isInside ? `${line} ${await nameOf(`t${last}`, page)}`.trimEnd() : line);
    return reply && isLatest() && tell(reply);
  };
  const hasSummary = isReplaced(run, overview);
  const said = state === "summarised" && !hasSummary ? t("out of the context, without a summary so far") : SAID[state];
  return h("div", { class: "cut", "data-cut": key, role: "group", "aria-label": t("Context compacted here") },
    h("p", {}, h("span", {}, isOne ? t("{turn} is {state}", { turn: `t${first}`, state: said })
      : t("{first} to {last} are {state}", { first: `t${first}`, last: `t${last}`, state: said })),
      h("span", { class: "acts" }, hasSummary && button(t("Show"), () => show("/context summary")),
      hasSummary && button(t("Edit"), () => show("/context summary edit")),
      state === "in the log" && preface && button(t("Show"), () => (below.firstChild
        ? below.replaceChildren() : below.replaceChildren(h("blockquote", {}, cleaned(html))))),
      event && button(t("Undo"), () => page.act(`/context undo ${event.id}`), t("Undo: {kind}", { kind: titleOf(event) })))),
    below);
}
