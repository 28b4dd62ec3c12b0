// The context as a map: the next request as blocks, in its order and in proportion to their tokens.
// A block leads to its turn; a range of blocks can be compacted, pinned or dropped.
import { plain } from "./cards.js";
import { amount, h } from "./dom.js";
import { icon } from "./icons.js";
import { flowed, placed } from "./flow.js";
import { nameOfPart, nameOfState, marks, t } from "./language.js";
import { Sparkline } from "./sparkline.js";

const USUAL = 336; // pixels of the map's width, if it is not visible
const LETTER = 7.4; // pixels of a letter of a name, at most
const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
const ABOUT = { memory: "/memory list", "system prompt": "/config system_prompt", "standing instructions": "/rules" };
const WAYS_BACK = /^\/context (undo|redo|unpin)\b/;

const maps = new WeakMap();

/** Draw what is known of the context into a container. `page` has what the map leads to: act(line, how)
    carries a command out, show(turn) shows a turn, explore(title, line) what a command tells. */
export function drawMap(container, state, page) {
  if (!maps.has(container)) maps.set(container, new ContextMap(container, page));
  maps.get(container).draw(state);
}

/** Another conversation is shown: the selection, and the undoable change, were of the previous one. */
export const leaveMap = (container) => maps.get(container)?.leave();

class ContextMap {
  #page;
  #container;
  #state = null;
  #drawn = "";
  #blocks = [];
  #options = [];
  #flow = null;
  #at = 0; // the block with the keyboard cursor
  #chosen = null; // {from, to}: places of blocks
  #isBusy = false; // whether a command is running
  #visits = 0; // conversations that were left
  #since = null; // the newest change and turn as of the reported result; "" until they are known; null without a result
  #toldAt = 0; // the time of that report: a state that was requested before is older
  #held = null; // where the mouse was pressed
  #pointer = null; // the mouse's last event over the blocks
  #ribbon = h("div", { class: "ribbon", role: "listbox", "aria-multiselectable": "true", "aria-orientation": "horizontal", "aria-label": t("The next request, in order"), "aria-describedby": "map-help" });
  #under = h("div", { class: "layer", "aria-hidden": "true" }); // the free ground, and what goes on in another row
  #over = h("div", { class: "layer", "aria-hidden": "true" });
  #marks = h("p", { class: "marks" });
  #about = h("p", { class: "about", "aria-hidden": "true" });
  #bar = h("div", { class: "selected", role: "group", "aria-label": t("Selected turns"), hidden: true });
  #told = h("p", { class: "hidden", role: "status" });
  #sparkline = new Sparkline();

  constructor(container, page) {
    this.#page = page;
    this.#container = container;
    container.append(h("div", { class: "map" }, this.#under, this.#ribbon, this.#over), this.#marks, this.#about, this.#bar, this.#told,
      h("p", { class: "hidden", id: "map-help" }, t("Arrow keys move, Shift and arrow keys select, Enter shows the turn.")),
      this.#sparkline.element);
    this.#listen();
    new ResizeObserver(() => this.#flow && container.clientWidth && container.clientWidth !== this.#flow.width && this.#layOut()).observe(container);
  }

  draw({ map, overview, newest, events, askedAt }) {
    this.#container.hidden = !map.blocks;
    this.#compare(`${events.at(-1)?.id} ${newest}`, askedAt);
    const drawn = JSON.stringify([map, overview.next_cut, newest]);
    if (!map.blocks || drawn === this.#drawn) return;
    const names = this.#names();
    this.#drawn = drawn;
    this.#state = { map, next: overview.next_cut, newest };
    this.#blocks = map.blocks;
    if (this.#chosen && names !== this.#names()) this.#isBusy ? this.#chosen = null : this.#choose(null);
    this.#sparkline.draw([...map.sizes ?? [], [newest + 1, overview.tokens]], events);
    this.#layOut();
  }

  /** Remove the reported result after a later change or turn. */
  #compare(now, askedAt) {
    if (this.#since === null || askedAt < this.#toldAt) return;
    if (!this.#since) this.#since = now;
    else if (this.#since !== now) this.#choose(null);
  }

  leave() {
    this.#visits += 1;
    this.#drawn = "";
    this.#at = 0;
    this.#held = null;
    this.#rest();
    this.#choose(null);
  }

  #rest() {
    this.#bar.removeAttribute("aria-busy");
    this.#isBusy = false;
  }

  /** Put the blocks into rows as wide as the map is now. */
  #layOut() {
    const { map: { limit }, next, newest } = this.#state;
    const width = this.#container.clientWidth || USUAL;
    const used = this.#blocks.reduce((sum, { tokens }) => sum + tokens, 0);
    const leaving = new Set(next?.turns);
    this.#flow = flowed(this.#blocks.map(({ tokens }) => tokens ?? 0), Math.max(used, limit.at), width);
    this.#at = Math.min(this.#at, this.#blocks.length - 1);
    this.#container.style.setProperty("--rows", this.#flow.rows);
    const rest = [];
    this.#options = this.#blocks.map((block, at) => {
      const [first, ...others] = placed(this.#flow, at);
      const isLeaving = block.part === "turns" && leaving.has(`t${block.first}`);
      const name = shortName(block);
      const option = h("span", { class: `block${isLeaving ? " leaving" : ""}`, id: `map-${at}`, role: "option", tabindex: at === this.#at ? 0 : -1, "aria-selected": "false", "aria-label": described(block, isLeaving), "data-at": at, "data-part": block.part, "data-state": block.state?.[0] },
        h("span", { "aria-hidden": "true" }, name.length * LETTER + 12 < first.size * width ? name : ""));
      put(option, first);
      for (const piece of others) rest.push(put(h("span", { class: `block${isLeaving ? " leaving" : ""}`, "data-of": at, "data-part": block.part }), piece));
      return option;
    });
    this.#ribbon.replaceChildren(...this.#options);
    this.#under.replaceChildren(...this.#ground(), ...rest);
    this.#over.replaceChildren(...this.#lines(limit, next, newest, used));
    this.#tell(this.#pointer && this.#blockAt(this.#pointer));
    this.#show();
  }

  #ground() {
    const rows = Array.from({ length: this.#flow.rows }, (_, row) => put(h("span", { class: "free" }), { row, start: 0, size: 1 }));
    return this.#flow.gap ? [...rows, put(h("span", { class: "gap" }), this.#flow.gap)] : rows;
  }

  /** The nearest limit, and the forecast of the next compaction. */
  #lines(limit, next, newest, used) {
    const words = limit.of !== "turns" ? t("Limit: {most} tokens", { most: amount(limit.most) })
      : limit.used > limit.most ? limit.most === 1 ? t("Limit: 1 turn") : t("Limit: {most} turns", { most: limit.most })
        : limit.most === 1 ? t("Limit: 1 turn (end of the bar)") : t("Limit: {most} turns (end of the bar)", { most: limit.most });
    const lines = [put(h("span", { class: "line limit" }), this.#flow.lineAt(limit.at))];
    const marks = [h("span", { class: "mark limit" }, words)];
    if (next && newest) {
      const turns = Math.max(0, Number(next.at.slice(1)) - newest - 1);
      lines.unshift(put(h("span", { class: "line cut-line" }), this.#flow.lineAt(used + turns * limit.per_turn)));
      marks.unshift(h("span", { class: "mark cut-line" }, t("Next compaction: about {turn}", { turn: next.at })));
    }
    const drawn = [["pinned", this.#blocks.some(({ state }) => state?.[0] === "pinned"), t("pinned")],
      ["leaving", this.#under.parentElement.querySelector(".leaving"), t("summarised next")],
      ["gap", this.#flow.gap, t("not to scale")]];
    for (const [name, is, label] of drawn) if (is) marks.push(h("span", { class: `mark ${name}`, "data-part": "turns" }, label));
    this.#marks.replaceChildren(...marks);
    return lines;
  }

  // --- the mouse, fingers, the keyboard ---------------------------------------------------------

  #listen() {
    const ribbon = this.#ribbon;
    ribbon.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.pointerType !== "mouse") return;
      const at = this.#blockAt(event);
      if (at === null) return;
      this.#held = at;
      ribbon.setPointerCapture(event.pointerId);
    });
    ribbon.addEventListener("pointermove", (event) => {
      if (event.pointerType !== "mouse") return;
      this.#pointer = event;
      const at = this.#blockAt(event, this.#held !== null);
      this.#tell(at);
      if (this.#held !== null && (at !== this.#held || this.#chosen)) this.#choose({ from: this.#held, to: at });
    });
    ribbon.addEventListener("pointerup", () => {
      const at = this.#held;
      this.#held = null;
      if (at === null) return;
      this.#focus(at);
      if (!this.#chosen || this.#chosen.from !== at) this.#open(at);
    });
    ribbon.addEventListener("pointercancel", () => { this.#held = null; });
    ribbon.addEventListener("pointerleave", () => {
      this.#pointer = null;
      this.#tell(null);
    });
    ribbon.addEventListener("click", (event) => { // of a touch, or of a screen reader
      if (event.pointerType === "mouse") return;
      const named = event.target.closest("[data-at]");
      const at = event.clientX || !named ? this.#blockAt(event, true) : Number(named.dataset.at);
      const isStart = !this.#chosen || this.#chosen.from !== this.#chosen.to;
      this.#choose({ from: isStart ? at : this.#chosen.from, to: at });
      this.#focus(at);
    });
    ribbon.addEventListener("focusin", (event) => {
      this.#at = Number(event.target.dataset.at);
      this.#tell(this.#at);
    });
    ribbon.addEventListener("focusout", () => this.#tell(null));
    ribbon.addEventListener("keydown", (event) => this.#press(event));
  }

  #press(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const last = this.#options.length - 1;
    const to = { Home: 0, End: last }[event.key] ?? (STEPS[event.key] && Math.min(last, Math.max(0, this.#at + STEPS[event.key])));
    if (event.key === "Escape" && this.#chosen) {
      event.stopPropagation(); // a drawer stays open
      this.#choose(null);
    } else if (to !== undefined) {
      if (event.shiftKey) this.#choose({ from: this.#chosen?.from ?? this.#at, to });
      else this.#choose(null);
      this.#focus(to);
    } else if (event.key === "Enter") this.#open(this.#at);
    else if (event.key === " ") this.#choose({ from: this.#at, to: this.#at });
    else return;
    event.preventDefault();
  }

  #focus(at) {
    this.#options[this.#at]?.setAttribute("tabindex", -1);
    this.#options[at].setAttribute("tabindex", 0);
    this.#options[at].focus({ preventScroll: true });
  }

  /** The place of the block of an event; null on the free area, unless the nearest is requested. */
  #blockAt({ clientX, clientY }, isNearest = false) {
    const { left, top, width, height } = this.#ribbon.getBoundingClientRect();
    return this.#flow.blockAt((clientX - left) / width, (clientY - top) / height, isNearest);
  }

  /** Show a block's source: the part of the prompt, the turn in the chat, or the place of a summary in it. */
  #open(at) {
    const { part, first, last } = this.#blocks[at];
    if (first) this.#page.show(`t${part === "turns" ? first : last}`);
    else if (ABOUT[part]) this.#page.explore(nameOfPart(part), ABOUT[part]);
  }

  #tell(at) {
    const focused = this.#ribbon.contains(document.activeElement) ? this.#at : null;
    const block = this.#blocks[at ?? focused];
    this.#about.replaceChildren(...block ? [h("b", {}, longName(block)), ` · ${sized(block)}`, block.words ? h("span", { dir: "auto" }, ` · ${block.words}`) : ""]
      : !this.#blocks.some(isTurn) ? []
      : [matchMedia("(pointer: coarse), (max-width: 720px)").matches ? t("Tap a block, then another, to select turns.") : t("Click a block to show its turn, drag to select turns.")]);
  }

  // --- what is selected -------------------------------------------------------------------------

  #choose(chosen) {
    this.#chosen = chosen;
    this.#since = null;
    this.#show();
    if (!chosen) {
      this.#bar.hidden = true;
      this.#told.textContent = "";
      return;
    }
    const blocks = this.#selected();
    const names = this.#names();
    const count = blocks.reduce((sum, one) => sum + one.count, 0);
    const words = count === 0 ? t("No turn is selected")
      : t("{turns}: {n} tokens", { turns: spanOf(blocks), n: amount(blocks.reduce((sum, { tokens }) => sum + tokens, 0)) });
    const isPinned = count > 0 && blocks.every(({ state }) => state?.includes("pinned"));
    const button = (label, line) => h("button", { type: "button", disabled: !count, onclick: () => this.#act(line) }, label);
    this.#say(words,
      h("button", { type: "button", disabled: !count, onclick: () => this.#page.show(`t${blocks[0].first}`) }, t("Show")),
      button(t("Compact"), `/context compact ${names}`),
      button(isPinned ? t("Unpin") : t("Pin"), `/context ${isPinned ? "unpin" : "pin"} ${names}`),
      button(t("Drop"), `/context drop ${names}`));
  }

  #selected() {
    if (!this.#chosen) return [];
    const { from, to } = this.#chosen;
    return this.#blocks.slice(Math.min(from, to), Math.max(from, to) + 1).filter(({ turns }) => turns);
  }

  #names() {
    return this.#selected().map(({ turns }) => turns).join(" ");
  }

  #show() {
    const { from, to } = this.#chosen ?? { from: 1, to: 0 };
    const isIn = (at) => at >= Math.min(from, to) && at <= Math.max(from, to) && this.#chosen !== null;
    this.#options.forEach((option, at) => option.setAttribute("aria-selected", isIn(at)));
    for (const piece of this.#under.querySelectorAll("[data-of]")) piece.classList.toggle("chosen", isIn(Number(piece.dataset.of)));
  }

  /** Fill the bar below the map with words and buttons. */
  #say(words, ...buttons) {
    this.#told.textContent = words;
    this.#bar.hidden = false;
    this.#bar.replaceChildren(h("span", { class: "words", dir: "auto" }, words),
      h("button", { type: "button", class: "icon", "aria-label": t("Clear the selection"), onclick: () => { this.#choose(null); this.#focus(this.#at); } }, icon("close")),
      buttons.length ? h("span", { class: "choices" }, buttons) : "");
  }

  /** Run a command, and show its result together with its undo. */
  async #act(line) {
    if (this.#isBusy) return;
    this.#isBusy = true;
    this.#bar.setAttribute("aria-busy", "true");
    const visit = this.#visits;
    const chosen = this.#chosen;
    const reply = await this.#page.act(line, { isQuiet: true });
    if (visit !== this.#visits) return;
    this.#rest();
    if (this.#chosen && this.#chosen !== chosen) { // other turns were selected meanwhile
      if (reply) this.#page.tell(plain(reply.text));
      return;
    }
    this.#chosen = null;
    this.#show();
    if (!reply) {
      this.#choose(null);
      return;
    }
    [this.#since, this.#toldAt] = ["", performance.now()]; // it is valid until the next action or message
    const back = reply.problem ? [] : reply.actions.filter(({ command }) => WAYS_BACK.test(command));
    this.#say(plain(reply.text), ...back.map(({ label, command }) => h("button", { type: "button", title: `${label}${marks.colon}${plain(reply.text)}`, onclick: () => this.#act(command) }, label)));
  }
}

function put(element, { row, start, size }) {
  element.style.insetBlockStart = `calc(${row} * var(--pitch))`;
  element.style.left = `${start * 100}%`;
  if (size !== undefined) element.style.inlineSize = `calc(${size * 100}% - 1px)`;
  return element;
}

const turnsOf = ({ first, last }) => (first === last ? `t${first}` : t("{first} to {last}", { first: `t${first}`, last: `t${last}` }));
const isTurn = ({ part }) => part === "turns" || part === "running turn";
const spanOf = (blocks) => turnsOf({ first: blocks[0].first, last: blocks.at(-1).last });
const shortName = (block) => (!isTurn(block) ? nameOfPart(block.part) : block.first === block.last ? `t${block.first}` : `t${block.first}–${block.last}`);

function longName(block) {
  if (isTurn(block)) return turnsOf(block);
  return block.first ? nameOfPart(block.part) + marks.comma + turnsOf(block) : nameOfPart(block.part);
}

const sized = ({ tokens = 0, state = [] }) => [t("{n} tokens", { n: amount(tokens) }), ...state.filter((word) => word !== "in context").map(nameOfState)].join(marks.comma);

const described = (block, isLeaving) => [longName(block) + marks.comma + sized(block), isLeaving && t("summarised at the next compaction"), block.words].filter(Boolean).join(marks.colon);
