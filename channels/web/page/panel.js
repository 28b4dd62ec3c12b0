// The right column: the context, live. Every control in it is a command.
import { iconButton } from "./acts.js";
import { plain } from "./cards.js";
import { Costs } from "./costs.js";
import { amount, asked, byId, h, latest, money, nextTask, released, shown, timeOf } from "./dom.js";
import { explore } from "./explorer.js";
import { drawMap, leaveMap } from "./map.js";
import { showModel } from "./models.js";
import { receipt, timeline } from "./records.js";
import { nameOfStrategy } from "./settings.js";
import { cleaned } from "./text.js";
import { isUsual, locale, nameOfActor, nameOfEvent, nameOfPart, nameOfState, marks, pieces, spanOf, t, titleOf } from "./language.js";

const NEWEST = 20; // listed changes
const WIDE = 100_000; // tokens of a window that holds far more than 20 usual turns
const MORE = 100; // turns added when older ones are requested
const PAUSE = 150; // milliseconds: many simultaneous changes are drawn once

export class Panel {
  known = { states: new Map() }; // what is known of the turns: {states by turn, turns, overview, events, newest, runs}

  #page;
  #timer = 0;
  #begin = latest();
  #count = 0; // the number of shown turns, or the server's if that is more
  #panel = byId("panel");
  #map = byId("map");
  #costs;

  constructor(page) {
    this.#page = page;
    this.#costs = new Costs(page);
  }

  /** Redraw it soon. */
  refresh() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#load(), PAUSE);
  }

  /** Show the fill level of the context, at the top of the chat. */
  usage({ tokens, max_tokens: budget, turns, max_turns: most, nearest, share: part, cost, model }) {
    showModel(model);
    const share = Math.round(part * 100);
    const [whole, brief] = nearest === "turns"
      ? [ofTurns(turns, most).join(""), t("{n} turns", { n: turns > most ? turns : `${turns}/${most}` })]
      : [t("{n} of {budget} tokens", { n: amount(tokens), budget: amount(budget) }), t("{n} tokens", { n: amount(tokens) })];
    byId("share").replaceChildren(h("span", { class: "whole" }, t("Context"), marks.colon, whole), h("span", { class: "brief" }, brief));
    byId("gauge").style.inlineSize = `${Math.min(100, share)}%`;
    byId("usage").setAttribute("aria-label", t("Context: {share}% full{cost}", { share, cost: cost ? marks.comma + money(cost) : "" }));
  }

  async #load() {
    const isLatest = this.#begin();
    const askedAt = performance.now();
    const state = await this.#loadAll().catch((error) => this.#page.tell(error.message));
    await released();
    if (!state || !isLatest()) return; // a newer load is running
    this.known = { ...state, runs: state.states, states: expanded(state.states) };
    this.usage(state.overview.usage);
    drawMap(this.#map, { ...state, askedAt }, { ...this.#page, explore: (title, line) => explore(title, line, this.#page.act) });
    await nextTask();
    await released();
    if (!isLatest()) return;
    const open = [...this.#panel.querySelectorAll("details[open]")].map((details) => details.id);
    this.#panel.replaceChildren(...this.#drawn(state));
    this.#panel.toggleAttribute("inert", false);
    this.#panel.removeAttribute("aria-busy");
    for (const id of open) byId(id)?.setAttribute("open", "");
    this.#costs.refresh();
    byId("of-requests").replaceChildren(timeline(state.requests, this.#page.act));
    await nextTask();
    if (isLatest()) this.#page.drawn();
  }

  /** Everything shown, with as many turns as requested. */
  async #loadAll() {
    const state = await this.#page.load();
    const first = numberOf(state.turns[0]);
    const from = Math.max(1, state.newest + 1 - this.#count);
    if (first > from) {
      const { data } = await this.#page.run(`/context turns t${from}-t${first - 1}`);
      state.turns.unshift(...data?.turns ?? []);
    }
    return state;
  }

  /** A button for the turns before these, with their number. */
  #older(turns) {
    const left = numberOf(turns[0]) - 1;
    return left > 0 && h("button", { type: "button", class: "wide", onclick: () => {
      this.#count = Math.max(this.#count, turns.length) + MORE;
      this.#load();
    } }, t("Show older turns ({left})", { left }));
  }

  /** Another session is shown, from its end. */
  restart() {
    this.#count = 0;
    this.#begin(); // running loads, and the shown content, are of the previous one
    this.known = { states: new Map() };
    this.#panel.toggleAttribute("inert", true);
    this.#panel.setAttribute("aria-busy", "true");
    leaveMap(this.#map);
  }

  #drawn({ overview, turns, events }) {
    return [
      this.#size(overview),
      this.#controls(overview, events),
      section(t("Turns"), turns.length
        ? h("ul", { class: "turns" }, turns.toReversed().map((turn) => this.#turn(turn, overview)))
        : h("p", { class: "faint" }, t("None yet. A turn is a message and its answer.")), this.#older(turns)),
      turns.length > 0 && section(t("Changes"), events.length
        ? h("ol", { class: "events" }, this.#events(events))
        : h("p", { class: "faint" }, t("None yet: every turn is in context."))),
    ].filter(Boolean);
  }

  #size(overview) {
    const { tokens, budget, parts, free, usage: { turns, max_turns: most, nearest } } = overview;
    const [size, used] = [amount(tokens), turns].map((number) => h("strong", {}, number));
    const full = [h("span", {}, pieces("{used} of {most} tokens", { used: size, most: amount(budget) })),
      most ? h("span", {}, ofTurns(used, most, turns)) : ""];
    if (nearest === "turns") full.reverse();
    const legend = [...Object.entries(parts), ["free", free]].filter(([, size]) => size > 0);
    return h("section", { "aria-label": t("Size") },
      h("p", { class: "headline" }, full[1] ? [full[0], " · "] : "", h("span", { class: "together" }, full[1] || full[0],
        " ", h("span", { class: "faint" }, overview.is_measured ? t("(measured)") : t("(estimated)")))),
      h("dl", { class: "legend" }, legend.map(([name, size]) =>
        h("div", {}, h("dt", { "data-part": name }, nameOfPart(name)), h("dd", {}, amount(size))))),
      overview.turns.length ? null : this.#limitOfTurns(overview),
      overview.turns.length ? h("p", { class: "next" }, h("b", {}, t("Next compaction"), marks.colon), nextCut(overview)) : null,
      overview.calls > 0 && h("p", { class: "faint" }, costOf(overview)),
      h("p", { class: "faint" }, t("When the conversation gets long"), marks.colon, nameOfStrategy(overview.strategy)),
      this.#costs.element,
      overview.preface
        ? h("details", { id: "preface" }, h("summary", {}, t("Summary of the oldest turns")), h("blockquote", {}, cleaned(overview.preface_html)))
        : null);
  }

  /** Return what the default limit of turns means, before anything is said, if the window has room for more. */
  #limitOfTurns({ max_turns: most, layers, strategy, window }) {
    if (strategy !== "trim" || !most || layers.agent_max_context_turns !== "default" || window < WIDE) return null;
    return h("p", { class: "help" }, t("The context keeps the last {most} turns; older ones are summarised.", { most }), " ",
      h("button", { type: "button", onclick: () => this.#page.act("/config agent_max_context_turns 0") }, t("Limit by tokens only")));
  }

  #controls(overview, events) {
    const [undo, redo] = ["undo", "redo"].map((way) => events.find(({ next }) => next === way));
    const controls = [
      [t("Compact"), "/context compact", t("Replace all turns except pinned ones with a summary"), overview.turns.length > 0],
      [t("Clear context"), "/context clear", t("Drop all turns from the context; nothing is deleted"), overview.turns.length > 0],
      [t("Undo"), `/context undo ${undo?.id}`, undo ? t("Undo: {kind}", { kind: titleOf(undo) }) : t("Undo the last change"), undo],
      [t("Redo"), `/context redo ${redo?.id}`, redo ? t("Redo: {kind}", { kind: titleOf(redo) }) : t("Redo the last undo"), redo],
    ];
    return h("div", { class: "controls", role: "group", "aria-label": t("Change the context") },
      controls.map(([label, line, title, isOffered]) =>
        h("button", { type: "button", title, disabled: !isOffered, onclick: () => this.#run(line, line === "/context clear") }, label)));
  }

  #turn({ turn, tokens, state, words }, overview) {
    const isIn = overview.turns.includes(turn);
    const isPinned = state.includes("pinned");
    const badges = state.filter((word) => !isUsual(word));
    const button = (name, label, line) => iconButton(name, label, () => this.#run(line), { "aria-pressed": name === "pin" ? String(isPinned) : null });
    return h("li", { class: isIn ? "" : "out" },
      h("button", { type: "button", class: "id", "aria-label": t("Show {turn}", { turn }), onclick: () => this.#page.show(turn) }, turn),
      h("span", { class: "words" }, words),
      h("span", { class: "tokens" }, amount(tokens)),
      isIn && h("span", { class: "acts" },
        button("pin", isPinned ? t("Unpin {turn}", { turn }) : t("Pin {turn}", { turn }), `/context ${isPinned ? "unpin" : "pin"} ${turn}`),
        turn !== overview.running_turn && button("drop", t("Drop {turn}", { turn }), `/context drop ${turn}`)),
      badges.length > 0 && h("span", { class: "badges" }, badges.map((word) => h("span", { class: "badge", "data-state": word }, nameOfState(word)))));
  }

  /** The newest changes; the next undoable one has its button. */
  #events(events) {
    return events.toReversed().slice(0, NEWEST).map((event) => h("li", { class: event.undone ? "undone" : "", title: event.reason },
      drawnEvent(event),
      receipt(event, (line) => this.#run(line)),
      event.next === "undo" && h("button", { type: "button", title: t("Undo: {kind}", { kind: titleOf(event) }), "aria-label": t("Undo: {kind}", { kind: titleOf(event) }), onclick: () => this.#run(`/context undo ${event.id}`) }, t("Undo"))));
  }

  async #run(line, isAsked = false) {
    if (isAsked && await asked({ question: t("Clear the context? Nothing is deleted, and Undo brings the turns back."), action: t("Clear") }) === null) return;
    this.#panel.setAttribute("aria-busy", "true");
    try {
      this.#page.tell(plain((await this.#page.run(line)).text));
    } catch (error) {
      this.#page.tell(error.message);
    }
    this.#panel.removeAttribute("aria-busy");
    await this.#load();
  }
}

/** The states of turns by their names, from runs of turns that share theirs. */
function expanded(runs) {
  const states = new Map();
  for (const { first, last, state } of runs) {
    for (let number = first; number <= last; number += 1) states.set(`t${number}`, state);
  }
  return states;
}

const numberOf = (turn) => Number(turn?.turn.slice(1) ?? 1);

/** The number of turns, which may be an element, and its limit. */
const ofTurns = (used, most, turns = used) => (turns > most ? pieces("{used} turns (limit {most})", { used, most })
  : most === 1 ? pieces("{used} of 1 turn", { used }) : pieces("{used} of {most} turns", { used, most }));

const section = (title, ...content) => h("section", {}, h("h3", {}, title), ...content.filter(Boolean));


function drawnEvent(event) {
  const { kind, actor, at, tokens_before: before, tokens_after: after, undone } = event;
  const change = h("b", {}, nameOfEvent(kind));
  const name = spanOf(event);
  return [
    h("span", {}, undone ? pieces("{change} (undone)", { change }) : change, name && ` ${name}`),
    h("span", { class: "sizes" }, before === after ? "" : t("{before} → {after} tokens", { before: before.toLocaleString(locale), after: after.toLocaleString(locale) })),
    h("span", { class: "faint" }, kind === "prompt" ? timeOf(at) : `${nameOfActor(actor)} · ${timeOf(at)}`),
    kind === "compact" && after > before ? h("span", { class: "receipt faint" }, t("the summary is longer than its turns")) : "",
  ];
}

function nextCut({ due, next_cut: next, held_off_until: held, waiting_cut: waiting }) {
  if (waiting) return t("after your answer to the question ({turns}).", { turns: spanOf(waiting) });
  if (held) return t("none before t{turn} begins, because of your undo, unless the context grows to {tokens} tokens first.", { turn: held.turn, tokens: amount(held.tokens) });
  if (due) return t("before the next request; {effect} ({why}).", { effect: due.effect, why: due.why });
  if (!next) return t("none expected.");
  const { at, effect, tokens } = next;
  return tokens ? t("about {at}; {effect} (about {n} tokens).", { at, effect, n: amount(tokens) }) : t("about {at}; {effect}.", { at, effect });
}

/** Return the cost of a conversation, including summaries, as in /context. */
function costOf({ cost, calls, calls_of_unknown_price: unknown }) {
  if (unknown === calls && !cost) return t("Cost of this conversation, summaries included: unknown; the model has no price.");
  const said = calls === 1 ? t("Cost of this conversation: {cost} for 1 request.", { cost: money(cost) }) : t("Cost of this conversation: {cost} for {calls} requests, summaries included.", { cost: money(cost), calls });
  return unknown ? said + marks.space + t("Requests of unknown price: {n}.", { n: unknown }) : said;
}
