// The left column: conversations, searched, renamed and deleted.
import * as api from "./api.js";
import { asked, byId, h } from "./dom.js";

export class Sessions {
  #bot;
  #search = byId("search");

  constructor(bot) {
    this.#bot = bot;
    this.#search.addEventListener("input", () => this.refresh());
    byId("new").addEventListener("click", () => bot.open(Sessions.fresh()));
  }

  /** The name of a new session. */
  static fresh() {
    return crypto.randomUUID?.() ?? `chat-${Date.now()}`; // only over https or on this machine
  }

  /** Draw the list anew; returns it. */
  async refresh() {
    const words = this.#search.value;
    const { sessions } = await api.sessions(words);
    if (words !== this.#search.value) return sessions; // a newer one is on its way
    byId("list").replaceChildren(...sessions.map((session) => this.#item(session)));
    if (!sessions.length && words) byId("list").append(h("li", { class: "faint" }, "Nothing found."));
    this.mark();
    return sessions;
  }

  /** Show which one is open. */
  mark() {
    let title = "New conversation";
    for (const item of byId("list").querySelectorAll("[data-session]")) {
      const isCurrent = item.dataset.session === this.#bot.current();
      item.firstChild.toggleAttribute("aria-current", isCurrent);
      if (isCurrent) title = item.firstChild.textContent;
    }
    byId("title").textContent = title;
    document.title = `${title} · Parley`;
  }

  #item({ id, title }) {
    return h("li", { "data-session": id },
      h("button", { type: "button", class: "session", onclick: () => this.#bot.open(id) }, title || "…"),
      h("button", { type: "button", class: "icon", title: "Rename", "aria-label": `Rename ${title}`, onclick: () => this.#rename(id, title) }, "✎"),
      h("button", { type: "button", class: "icon", title: "Delete", "aria-label": `Delete ${title}`, onclick: () => this.#delete(id, title) }, "✕"));
  }

  async #rename(id, title) {
    const name = await asked({ question: "What should this conversation be called?", label: "Title", value: title, action: "Rename" });
    if (name === null) return;
    await this.#bot.command(id, `/title ${name.trim() || "--unset"}`);
    await this.refresh();
  }

  async #delete(id, title) {
    const question = `Delete “${title}” for good, with all its branches? Nothing can bring it back.`;
    if (await asked({ question, action: "Delete" }) === null) return;
    await this.#bot.command(id, "/forget branches yes");
    await this.#bot.forget(id);
    const left = await this.refresh();
    if (id === this.#bot.current()) await this.#bot.open(left[0]?.id ?? Sessions.fresh());
  }
}
