// The middle column: the messages, and the answer being written.
import * as api from "./api.js";
import { arrows, facts, variants } from "./acts.js";
import { asides, card, field, plain, settle, waysOn } from "./cards.js";
import { greeting } from "./connect.js";
import { cuts } from "./cuts.js";
import { byId, fill, h, isWritingIn, latest, nextTask } from "./dom.js";
import { Draft } from "./draft.js";
import { drawnFiles } from "./files.js";
import { t } from "./language.js";
import { Scroll } from "./scroll.js";
import { drawnTurn, question, turnsOf, waiting } from "./turns.js";

const OUT = ["summarised", "cleared", "dropped", "gone", "in the log"]; // states of turns that are out of the context
const AT_ONCE = 20; // older turns drawn at once
const IN_A_TASK = 5; // turns drawn in one task
const STAYS = 8000; // milliseconds for which a notice is shown

export class Chat {
  #page;
  #log = byId("log");
  #session = "";
  #older = null;
  #draft = null;
  #scroll = new Scroll(this.#log);
  #told = 0; // the number of reported answers and deletions: a response requested before one does not include it
  #loads = 0; // begun so far
  #shown = 0; // the number of the load that is shown: an earlier one that ends after it is not drawn over it
  #fading = 0;
  #begin = latest(); // to edit a question
  #revealed = latest(); // turns, by request
  #top = new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && this.#older?.click(), { root: byId("log"), rootMargin: "600px 0px 0px" });
  #marked = new WeakMap(); // the parts of that which an article shows
  #over = new Map(); // answered questions of tools, with their results
  #known = new Map(); // known facts about turns, by name

  constructor(page) {
    this.#page = page;
  }

  clear(session) {
    this.#session = session;
    this.#begin();
    this.#revealed();
    this.#log.replaceChildren();
    this.#scroll.restart();
    this.#known = new Map();
    this.#page.running(false);
    this.notice("");
  }

  /** Show why nothing is visible, for as long as that is the case. */
  refused(text) {
    this.#log.replaceChildren(h("p", { class: "greeting", role: "alert" }, text));
  }

  /** Draw the newest turns; returns the position from which events follow them. In the same branch
      (`isSame`), the answer being written stays. */
  async load(session, { isSame = false } = {}) {
    const told = this.#told;
    const number = this.#loads += 1;
    const isLate = () => session !== this.#session || number < this.#shown;
    const { messages, event, private: isPrivate } = await api.messages(session);
    if (isLate()) return event;
    await this.#page.offRecord(isPrivate);
    const drawn = await this.#drawn(messages);
    if (isLate()) return event;
    if (told !== this.#told) return this.load(session, { isSame });
    this.#shown = number;
    const running = isSame && this.#draft ? this.#find(this.#draft.id) : null;
    this.#known = new Map(); // in another branch the same name is another turn
    const written = this.#beingWritten();
    const place = this.#scroll.place(); // of a person reading further up
    const edited = this.#log.querySelectorAll(".cut:has(textarea:enabled)");
    this.#log.replaceChildren(...drawn, ...edited); // `mark` puts those behind their turns again
    this.#scroll.restart();
    this.#offerOlder(messages);
    if (running?.classList.contains("pending")) this.#keepRunning(running);
    this.#greet();
    this.mark(this.#page.known());
    this.#page.loaded();
    written();
    const found = place && await this.#reach(place.turn);
    if (found) this.#scroll.stay(found, place.at);
    else this.#scroll.toEnd();
    return event;
  }

  /** Put the answer being written back, unless the transcript has its end. */
  #keepRunning(article) {
    const begun = this.#log.querySelector(`[data-turn="${this.#draft.turn}"]`);
    if (!begun) this.#put(article);
    else if (begun.matches("[data-open]")) begun.replaceWith(article);
  }

  /** Save the text being typed in the log; returns a function that restores it. */
  #beingWritten() {
    const question = this.#log.querySelector(".turn > .field:not([inert])");
    const turn = question?.parentElement.dataset.turn;
    const cards = this.#log.querySelectorAll(":scope > .card:has(textarea:enabled)");
    return () => {
      const asked = question && this.#question(turn);
      if (asked) {
        asked.hidden = true;
        asked.after(question);
      }
      for (const one of cards) this.#put(one);
    };
  }

  #question = (turn) => this.#log.querySelector(`[data-turn=${turn}] .question`);

  /** Draw turns, some in each task: one task for all of them would block the page. */
  async #drawn(messages) {
    const page = { act: this.#act, retry: this.#retry, why: (turn) => this.#page.run(`/why ${turn}`), edit: this.#edit, quote: this.#quote, model: this.#model };
    const drawn = [];
    for (const turn of turnsOf(messages)) {
      if (drawn.length && drawn.length % IN_A_TASK === 0) await nextTask();
      drawn.push(drawnTurn(turn, page));
    }
    return drawn;
  }

  /** Run a command of a turn's row; the turn stays visible. */
  #act = async (line, { isTold = false, turn = "" } = {}) => {
    const reply = await this.#page.run(line, { isQuiet: true });
    if (reply && (isTold || !reply.data)) this.notice(plain(reply.text));
    const article = turn && this.#log.querySelector(`[data-turn=${turn}]`);
    if (article) (article.contains(document.activeElement) ? document.activeElement : article).scrollIntoView({ block: "nearest" });
    return reply;
  };

  /** Retry a failed turn; its button is removed, so the focus moves to the message box. */
  #retry = (turn) => {
    this.#page.write();
    return this.#act(`/regenerate ${turn}`);
  };

  /** Edit a question in its place. */
  #edit = async (turn) => {
    const isLatest = this.#begin();
    const reply = await this.#page.ask(`/edit ${turn}`);
    if (!isLatest()) return undefined;
    const asked = this.#question(turn);
    if (!reply?.form || !asked) return reply && this.notice(plain(reply.text));
    this.#log.querySelector(".turn > .field")?.remove();
    for (const other of this.#log.querySelectorAll(".question[hidden]")) other.hidden = false;
    asked.hidden = true;
    const ask = async (line) => {
      const told = await this.#act(line);
      if (!told?.data) return null; // a refused text is kept
      this.#page.write();
      return told;
    };
    const left = () => {
      const now = this.#question(turn); // it may have been redrawn
      now.hidden = false;
      now.parentElement.querySelector("[data-way=edit]")?.focus();
    };
    asked.after(field(reply.form, ask, { label: t("The question"), action: t("Ask"), left }));
    if (isWritingIn(document)) return undefined; // elsewhere, by now
    asked.nextSibling.querySelector("textarea").focus();
    return asked.nextSibling.scrollIntoView({ block: "nearest" }); // with its buttons
  };

  #quote = (turn) => {
    const selection = getSelection();
    const article = this.#log.querySelector(`[data-turn=${turn}]`);
    const chosen = article.contains(selection.anchorNode) && selection.toString().trim();
    this.#page.quote(chosen || [...article.querySelectorAll(":scope > .text")].map((text) => text.innerText).join("\n\n"));
  };

  #model = async (turn) => {
    const session = this.#session;
    const model = await this.#page.chooseModel().catch((error) => this.notice(error.message));
    return model && session === this.#session && this.#act(`/regenerate ${turn} ${model}`);
  };

  #offerOlder(messages) {
    const first = Number(messages[0]?.turn.slice(1) ?? 1);
    this.#older = first > 1 && h("button", { type: "button", class: "older", onclick: () => this.#showOlder(first, AT_ONCE).catch((error) => this.notice(error.message)) }, t("Show older turns"));
    this.#top.disconnect();
    if (!this.#older) return;
    this.#log.prepend(this.#older);
    this.#top.observe(this.#older); // scrolling up there loads more
  }

  /** Load older turns until one is there; returns it. */
  async #reach(turn) {
    const [session, find] = [this.#session, (what) => this.#log.querySelector(what)];
    while (!find(`[data-turn=${turn}]`) && this.#older && session === this.#session) {
      await this.#showOlder(Number(find("[data-turn]").dataset.turn.slice(1)), 200);
    }
    return find(`[data-turn=${turn}]`);
  }

  /** Show a turn, loading older ones until it is there. */
  async reveal(turn, { isFocused = false } = {}) {
    const isLatest = this.#revealed();
    let found = await this.#reach(turn) ?? this.#beingAnswered(turn);
    if (!found && isLatest()) { // the map is newer: the events of this turn are still on their way
      await this.load(this.#session, { isSame: true });
      found = await this.#reach(turn) ?? this.#beingAnswered(turn);
    }
    if (!isLatest()) return;
    for (const one of this.#log.querySelectorAll(".found")) one.classList.remove("found");
    found?.scrollIntoView({ block: found.offsetHeight > this.#log.clientHeight ? "start" : "center" });
    found?.classList.add("found");
    this.#scroll.leaveEnd();
    if (!found || !isFocused) return;
    found.tabIndex = -1;
    found.focus({ preventScroll: true });
  }

  #beingAnswered = (turn) => (this.#draft?.turn === turn ? this.#find(this.#draft.id) : null);

  async #showOlder(before, limit) {
    const [session, older, told] = [this.#session, this.#older, this.#told];
    const { messages } = await api.messages(session, { before, limit });
    const drawn = await this.#drawn(messages);
    if (session !== this.#session || older !== this.#older) return; // they are shown by now
    if (told !== this.#told) return this.#showOlder(before, limit);
    const height = this.#log.scrollHeight;
    // In a separate box, or each of a thousand turns is laid out while scrolling.
    this.#older.replaceWith(h("div", { class: "batch" }, ...drawn));
    this.#offerOlder(messages);
    this.mark(this.#page.known());
    this.#log.scrollTop += this.#log.scrollHeight - height;
  }

  /** A message that was just sent. */
  expect({ id, text, files = [] }) {
    this.#find(id)?.remove();
    this.#put(h("article", { class: "turn pending", "data-id": id }, question(text, drawnFiles(files)), waiting()));
    this.#page.running(true);
    this.#scroll.toEnd();
  }

  /** A message that is not on disk yet; `state` says why, and what can be done. */
  unsent(message, state) {
    if (!this.#find(message.id)) this.expect(message);
    const article = this.#find(message.id);
    article.className = "turn unsent";
    article.replaceChildren(article.firstChild, state);
    this.#drawRunning();
  }

  /** A message that was unsent is on disk now; unless its answer is there already. */
  sent({ id }) {
    const article = this.#find(id);
    if (!article?.classList.contains("unsent")) return;
    article.className = "turn pending";
    article.replaceChildren(article.firstChild, waiting());
    this.#drawRunning();
  }

  /** Remove deleted turns: these, or all if none is named. */
  forget(turns) {
    this.#told += 1;
    for (const article of this.#log.querySelectorAll("[data-turn]")) {
      if (!turns.length || turns.includes(article.dataset.turn)) article.remove();
    }
    this.#greet();
  }

  /** Greet in an empty chat. What belonged to removed turns, such as the line of a cut and a card in it, is no content. */
  #greet() {
    if (!this.#log.querySelector(".turn, .greeting, :scope > .card")) this.#log.replaceChildren(greeting(this.#page));
  }

  /** A message that is shown elsewhere, or not at all. */
  remove({ id }) {
    this.#find(id)?.remove();
    this.#greet();
    this.#drawRunning();
  }

  #drawRunning = () => this.#page.running(this.#log.querySelector(".pending") !== null);

  /** The new part of the answer so far. */
  draft({ id, question: text, turn, parts }) {
    let article = this.#find(id);
    const begun = this.#log.querySelector(`.turn[data-turn="${turn}"][data-open]`); // from the transcript
    begun?.remove();
    if (!article) {
      article = h("article", { class: "turn pending", "data-id": id }, question(text));
      this.#put(article);
      article.append(...this.#log.querySelectorAll(":scope > .asking:has(button[data-question])")); // shown before it
    }
    if (begun) this.#showWaiting();
    article.className = "turn pending";
    if (this.#draft?.id !== id) this.#draft = new Draft(id, turn);
    this.#draft.take(parts);
    fill(article, article.firstChild, ...questionsIn(article), parts.length ? this.#draft.element : article.querySelector(":scope > .waiting") ?? waiting());
    this.#page.running(true);
    if (byId("status").textContent !== t("Parley is writing.")) byId("status").textContent = t("Parley is writing.");
    this.#scroll.follow();
  }

  /** Show again the question of a tool in a turn that ran before it was opened here. */
  async #showWaiting() {
    const session = this.#session;
    const reply = await api.command(session, "/approve").catch(() => null); // it may be typed, too
    if (reply && !reply.problem && session === this.#session) this.#putCard(this.#card(reply), reply);
  }

  /** A tool's question is over, however it was answered. */
  settle({ question: name, text }) {
    this.#over.set(name, text);
    settle(this.#log, name, text);
  }

  /** A card; a tool's question is in the turn that waits for it, and stays there when it is answered. */
  #putCard(element, { actions }) {
    for (const { question: name } of actions) if (this.#over.has(name)) settle(element, name, this.#over.get(name));
    const isAsked = actions.some(({ command }) => command.startsWith("/approve "));
    element.classList.toggle("asking", isAsked);
    const pending = isAsked && this.#log.querySelector(".turn.pending");
    if (!pending) return this.#put(element);
    (questionsIn(pending).at(-1) ?? pending.firstChild).after(element);
    return element.scrollIntoView({ block: "nearest" });
  }

  /** An answer is complete: its turn is drawn from the transcript. */
  async done(answer) {
    const session = this.#session;
    this.#told += 1;
    let article = this.#find(answer.id);
    if (answer.turn) {
      const before = Number(answer.turn.slice(1)) + 1;
      const { messages } = await api.messages(session, { before, limit: 1 });
      const turns = await this.#drawn(messages);
      if (session !== this.#session) return;
      article = this.#find(answer.id); // the log may have been redrawn
      const asked = article ? questionsIn(article) : [];
      turns.at(-1)?.querySelector(":scope > .question")?.after(...asked);
      const failed = turns.at(-1)?.querySelector(".ending.failed");
      const said = messages.at(-1)?.text ?? "";
      const isNoted = said && answer.text.startsWith(said) && answer.text.slice(said.length).trim();
      if (failed) failed.append(...waysOn(answer.actions ?? [], this.#page.run));
      else if (answer.actions?.length || isNoted) turns.at(-1)?.append(asides(answer, said, this.#page.run));
      const there = this.#log.querySelector(`[data-turn=${answer.turn}]`);
      if (article) there?.remove();
      const place = article ?? there; // it keeps its place: a later turn may have begun
      place ? place.replaceWith(...turns) : turns.forEach((turn) => this.#put(turn));
    } else if (article) {
      article.replaceChildren(article.firstChild, ...questionsIn(article), this.#card(answer));
      article.classList.remove("pending");
    } else { // an unsolicited message, such as a question of a tool; or one in a branch that was left
      this.#putCard(this.#card(answer), answer);
    }
    this.#drawRunning();
    byId("status").textContent = t("The answer is complete.");
    this.#scroll.follow();
  }

  /** Show the answer of a command as a card. */
  reply(line, reply) {
    const told = this.#card(reply, line);
    const isAsked = this.#log.contains(document.activeElement); // further up, where nobody looks any more
    this.#put(told);
    if (isWritingIn(this.#log)) return;
    told.tabIndex = -1;
    if (isAsked) told.focus({ preventScroll: true });
    this.#scroll.toEnd();
    const top = told.getBoundingClientRect().top - this.#log.getBoundingClientRect().top + this.#log.scrollTop;
    if (this.#log.scrollHeight - top <= this.#log.clientHeight) return;
    told.scrollIntoView(); // a long one is read from its beginning
    this.#scroll.leaveEnd();
  }

  /** A line that disappears by itself. */
  notice(text) {
    clearTimeout(this.#fading);
    byId("notice").textContent = text;
    if (text) this.#fading = setTimeout(() => this.notice(""), STAYS);
  }

  /** Show the known facts about turns: their states and costs, and the places of cuts. */
  mark({ states, turns = [], ...context }) {
    for (const known of turns) this.#known.set(known.turn, known);
    for (const article of this.#log.querySelectorAll("[data-turn]")) {
      const { turn } = article.dataset;
      const state = states.get(turn) ?? [];
      const news = JSON.stringify([state, this.#known.get(turn)]);
      if (this.#marked.get(article) === news) continue; // of a long chat, little changes at once
      this.#marked.set(article, news);
      article.classList.toggle("out", state.some((word) => OUT.includes(word)));
      const { words, title } = facts({ ...this.#known.get(turn), state });
      const label = article.querySelector(".state");
      if (label.textContent !== words) label.textContent = words;
      label.title = title;
      const isIn = !article.classList.contains("out");
      const pin = article.querySelector("[data-act=pin]");
      pin?.setAttribute("aria-pressed", String(state.includes("pinned")));
      for (const act of article.querySelectorAll("[data-act]")) act.hidden = !isIn;
    }
    cuts(this.#log, context, { run: this.#page.run, ask: this.#page.ask, act: this.#act });
    this.#scroll.follow();
    this.#learn(context.newest ?? 0, turns);
  }

  /** Request unknown facts about visible turns. */
  async #learn(newest, known) {
    const shown = [...this.#log.querySelectorAll("[data-turn]")].map(({ dataset }) => dataset.turn);
    const unknown = shown.filter((turn) => !this.#known.has(turn) && Number(turn.slice(1)) <= newest);
    if (!unknown.length || !known.length) return;
    const asked = this.#known;
    for (const turn of unknown) asked.set(turn, {});
    const reply = await this.#page.ask(`/context turns ${unknown[0]}-${unknown.at(-1)}`);
    if (reply?.data?.turns && asked === this.#known) this.#page.marked(reply.data.turns);
  }

  /** Show where other branches differ. */
  branches(all) {
    const found = variants(all);
    for (const article of this.#log.querySelectorAll("[data-turn]")) {
      const { turn } = article.dataset;
      const variant = found.get(Number(turn.slice(1)));
      const go = (branch) => this.#act(`/branches ${branch}`, { turn });
      article.querySelector(".between").replaceChildren(...(variant ? [arrows(variant, turn, go)] : []));
    }
    this.#scroll.follow();
  }

  #card = (reply, line = "") => card(line, reply, this.#page.run, this.#page.ask);

  #put(element) {
    this.#log.querySelector(".greeting")?.remove();
    this.#log.append(element);
  }

  #find = (id) => this.#log.querySelector(`[data-id="${CSS.escape(id)}"]`);
}

/** The questions of tools in a turn, answered or not. */
const questionsIn = (article) => [...article.querySelectorAll(":scope > .asking")];
