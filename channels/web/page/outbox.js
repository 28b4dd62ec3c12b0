// Messages on their way to the bot. Each is kept in this browser until the bot has confirmed it, and
// sent again when the bot is back; its id makes a repeat harmless.
import * as api from "./api.js";
import { h } from "./dom.js";
import * as kept from "./kept.js";
import { t } from "./language.js";

const LONGEST = 15_000; // milliseconds between two attempts
const AWAY = new Set([502, 503, 504]); // a proxy's status for an unreachable bot

export class Outbox {
  #page;
  #messages = []; // {id, session, text, files, at, why, private}; why: what the bot said against it
  #going = null;
  #timer = 0;
  #pause = 1000;
  #isAway = false;

  constructor(page) {
    this.#page = page;
    addEventListener("online", () => this.wake());
  }

  /** Load the messages left by an earlier page. */
  async start() {
    const known = new Set(this.#messages.map(({ id }) => id));
    this.#messages.unshift(...(await kept.outbox()).filter(({ id }) => !known.has(id)));
    this.draw();
    this.wake();
  }

  /** Send a message; resolves once this browser has stored it. */
  async add(message) {
    this.#messages.push(message);
    this.#page.expect(message);
    await kept.keepMessage(message);
    this.wake();
  }

  /** Show those of the open session. */
  draw() {
    for (const message of this.#messages) {
      if (message.session === this.#page.session()) this.#page.unsent(message, this.#state(message));
    }
  }

  /** The bot may be reachable again. */
  wake() {
    clearTimeout(this.#timer);
    this.#pause = 1000;
    this.#go();
  }

  /** The bot answers a message, so it has it; its confirmation may still be on its way, or lost. */
  async arrived(id) {
    for (const message of this.#messages.filter((one) => one.id === id)) await this.#remove(message);
  }

  async forget(session) {
    this.#messages = this.#messages.filter((message) => message.session !== session);
    await kept.forget(session);
  }

  #go() {
    this.#going ??= this.#sendAll().finally(() => { this.#going = null; });
  }

  /** Send all that may be sent, in order; later again, if the bot can't be reached. */
  async #sendAll() {
    for (let next; (next = this.#messages.find(({ why }) => !why));) {
      this.#isAway = !await this.#send(next);
      if (!this.#isAway) continue;
      this.draw();
      this.#timer = setTimeout(() => this.#go(), this.#pause);
      this.#pause = Math.min(this.#pause * 2, LONGEST);
      return;
    }
  }

  /** Return whether the bot has decided about the message. */
  async #send(message) {
    try {
      const attachments = await Promise.all(message.files.map(encoded));
      const { is_answered: isAnswered } = await api.say(message.session, { id: message.id, text: message.text, attachments, private: message.private ?? false });
      await this.#remove(message);
      isAnswered ? this.#page.known(message) : this.#page.sent(message);
    } catch (error) {
      if (error.status === 409) { // it did arrive
        await this.#remove(message);
        this.#page.known(message);
        return true;
      }
      if (error instanceof api.Unreachable || AWAY.has(error.status)) return false;
      message.why = error.message;
      await kept.keepMessage(message);
      this.draw();
    }
    return true;
  }

  async #remove(message) {
    this.#messages = this.#messages.filter((other) => other !== message);
    await kept.dropMessage(message.id);
  }

  /** Return the state of a message, and the possible actions. */
  #state(message) {
    if (!message.why) return h("p", { class: "unsent-state" }, this.#isAway ? t("Waiting to be sent: no connection to the bot.") : t("Being sent…"));
    const button = (label, act) => h("button", { type: "button", onclick: act }, label);
    return h("div", { class: "unsent-state failed", role: "alert" },
      h("p", {}, t("Not sent. {why}", { why: message.why })),
      h("div", { class: "choices" },
        button(t("Send again"), () => { message.why = ""; this.#page.unsent(message, this.#state(message)); this.wake(); }),
        button(t("Edit"), () => this.#edit(message)),
        button(t("Discard"), () => this.#discard(message))));
  }

  async #edit(message) {
    await this.#page.edit(message); // first stored there, then deleted here
    await this.#discard(message);
  }

  async #discard(message) {
    this.#page.remove(message);
    await this.#remove(message);
  }
}

async function encoded({ name, media_type, blob }) {
  return { name, media_type, data: await api.base64(blob, name) };
}
