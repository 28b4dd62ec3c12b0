// The middle column: what was said, and the answer that is being written.
import * as api from "./api.js";
import { asked, byId, h, shown } from "./dom.js";
import { Draft } from "./draft.js";
import { drawnFiles } from "./files.js";
import { cleaned } from "./text.js";
import { drawnTurn, question, turnsOf, waiting } from "./turns.js";

const OUT = ["summarised", "cleared", "dropped", "gone"]; // states of turns that are out of the context

export class Chat {
  #page;
  #log = byId("log");
  #session = "";
  #older = null;
  #draft = null;

  constructor(page) {
    this.#page = page;
  }

  clear(session) {
    this.#session = session;
    this.#log.replaceChildren();
    this.#page.running(false);
    this.notice("");
  }

  /** Draw the newest turns; returns where the events go on after them. */
  async load(session) {
    const { messages, event } = await api.messages(session);
    if (session !== this.#session) return event;
    this.#log.replaceChildren(...turnsOf(messages).map(drawnTurn));
    this.#offerOlder(messages);
    if (!messages.length) this.#log.append(greeting());
    this.mark(this.#page.states());
    this.#page.loaded();
    this.#toEnd(true);
    return event;
  }

  #offerOlder(messages) {
    const first = Number(messages[0]?.turn.slice(1) ?? 1);
    this.#older = first > 1 && h("button", { type: "button", class: "older", onclick: () => this.#showOlder(first) }, "Show older turns");
    if (this.#older) this.#log.prepend(this.#older);
  }

  /** Show a turn, reading older ones until it is there. */
  async reveal(turn) {
    const [session, find] = [this.#session, (what) => this.#log.querySelector(what)];
    while (!find(`[data-turn=${turn}]`) && this.#older && session === this.#session) {
      await this.#showOlder(Number(find("[data-turn]").dataset.turn.slice(1)), 200);
    }
    const found = find(`[data-turn=${turn}]`);
    found?.scrollIntoView({ block: "center" });
    found?.classList.add("found");
  }

  async #showOlder(before, limit) {
    const { messages } = await api.messages(this.#session, { before, limit });
    const height = this.#log.scrollHeight;
    this.#older.replaceWith(...turnsOf(messages).map(drawnTurn));
    this.#offerOlder(messages);
    this.mark(this.#page.states());
    this.#log.scrollTop += this.#log.scrollHeight - height;
  }

  /** A message that was just sent. */
  expect({ id, text, files = [] }) {
    this.#find(id)?.remove();
    this.#put(h("article", { class: "turn pending", "data-id": id }, question(text, drawnFiles(files)), waiting()));
    this.#page.running(true);
    this.#toEnd(true);
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

  /** A message that is shown elsewhere, or not at all. */
  remove({ id }) {
    this.#find(id)?.remove();
    this.#drawRunning();
  }

  #drawRunning() {
    this.#page.running(this.#log.querySelector(".pending") !== null);
  }

  /** The answer so far: what is new of it. */
  draft({ id, question: text, parts }) {
    const isAtEnd = this.#isAtEnd();
    let article = this.#find(id);
    if (!article) {
      this.#log.querySelector(`.turn:not([data-id])[data-open]`)?.remove();
      article = h("article", { class: "turn pending", "data-id": id }, question(text));
      this.#put(article);
    }
    article.className = "turn pending";
    if (this.#draft?.id !== id) this.#draft = new Draft(id);
    this.#draft.take(parts);
    if (parts.length) article.replaceChildren(article.firstChild, this.#draft.element);
    else article.replaceChildren(article.firstChild, waiting());
    this.#page.running(true);
    if (byId("status").textContent !== "Parley is writing.") byId("status").textContent = "Parley is writing.";
    this.#toEnd(isAtEnd);
  }

  /** An answer is whole: its turn is drawn as the transcript has it. */
  async done(answer) {
    const isAtEnd = this.#isAtEnd();
    const article = this.#find(answer.id);
    if (answer.turn) {
      const before = Number(answer.turn.slice(1)) + 1;
      const { messages } = await api.messages(this.#session, { before, limit: 1 });
      const turns = turnsOf(messages).map(drawnTurn);
      this.#log.querySelector(`[data-turn=${answer.turn}]`)?.remove();
      article ? article.replaceWith(...turns) : turns.forEach((turn) => this.#put(turn));
    } else if (article) {
      article.replaceChildren(article.firstChild, card("", answer, this.#page.run));
      article.classList.remove("pending");
    } else { // said without being asked, such as a question of a tool; or in a branch that was left
      this.#put(card("", answer, this.#page.run));
    }
    this.#page.running(this.#log.querySelector(".pending") !== null);
    byId("status").textContent = "The answer is complete.";
    this.#toEnd(isAtEnd);
  }

  /** What a command answered. */
  reply(line, reply) {
    this.#put(card(line, reply, this.#page.run));
    this.#toEnd(true);
  }

  notice(text) {
    byId("notice").textContent = text;
  }

  /** Show which turns the model does not see any more. */
  mark(states) {
    for (const article of this.#log.querySelectorAll("[data-turn]")) {
      const state = states.get(article.dataset.turn) ?? [];
      article.classList.toggle("out", state.some((word) => OUT.includes(word)));
      const label = article.querySelector(".state");
      label.textContent = state.filter((word) => word !== "in play").join(", ");
    }
  }

  #put(element) {
    this.#log.querySelector(".greeting")?.remove();
    this.#log.append(element);
  }

  #find(id) {
    return this.#log.querySelector(`[data-id="${CSS.escape(id)}"]`);
  }

  #isAtEnd() {
    return this.#log.scrollHeight - this.#log.scrollTop - this.#log.clientHeight < 80;
  }

  #toEnd(should) {
    if (should) this.#log.scrollTop = this.#log.scrollHeight;
  }
}

function card(line, reply, run) {
  const pictures = reply.images.map((address) => h("img", { src: address, alt: "The picture in this reply",
    onclick: () => shown(address, line) }));
  const buttons = reply.actions.map(({ label, command, asks_first: asksFirst }) =>
    h("button", { type: "button", onclick: async () => {
      if (asksFirst && await asked({ question: `${label}: really?`, action: label }) === null) return;
      run(command);
    } }, label));
  return h("section", { class: "card", "aria-label": line || "Reply" },
    line && h("p", { class: "line" }, line), cleaned(reply.html), ...pictures,
    reply.form && field(reply.form, run),
    buttons.length ? h("div", { class: "choices" }, ...buttons) : null);
}

/** A field for the text that a reply asks for; what is there now stands in it. */
function field({ command, text }, run) {
  const area = h("textarea", { class: "answer", rows: Math.min(16, text.split("\n").length + 2), "aria-label": `Text for ${command}` });
  area.value = text;
  const form = h("form", {}, area, h("div", { class: "choices" },
    h("button", { type: "submit", class: "primary" }, "Save"),
    h("button", { type: "button", onclick: () => form.remove() }, "Cancel")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const written = area.value.trim();
    if (!written) return area.focus();
    form.remove();
    return run(`${command} ${written}`);
  });
  return form;
}

const greeting = () => h("div", { class: "greeting" },
  h("h2", {}, "What would you like to talk about?"),
  h("p", {}, "Beside the chat you can see and steer what the model sees: pin a turn, drop one, summarise, undo. Type / for all commands."));
