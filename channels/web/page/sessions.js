// The left column: conversations of all channels, by date; searched, renamed, pinned, put away.
import * as api from "./api.js";
import { plain } from "./cards.js";
import { asked, byId, h, released } from "./dom.js";
import { chosen } from "./menu.js";
import { download, importing } from "./transfer.js";
import { locale, t } from "./language.js";

const PAUSE = 200; // milliseconds of silence after which a search begins
const FIRST = 200; // that are drawn, of very many
const DAY = 24 * 3600 * 1000;
const CHANNELS = { terminal: t("Terminal"), telegram: "Telegram" };

/** What a channel is called. */
export const nameOf = (channel) => CHANNELS[channel] ?? channel.replace(/^./, (letter) => letter.toUpperCase());

export class Sessions {
  #bot;
  #search = byId("search");
  #known = new Map(); // by name: all that were ever listed
  #selected = null; // names, while several are chosen
  #all = false;
  #timer = 0;

  constructor(bot) {
    this.#bot = bot;
    this.#search.addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.refresh().catch((error) => bot.tell(error.message)), PAUSE);
    });
    byId("new").addEventListener("click", () => bot.open(Sessions.fresh()));
    byId("more").addEventListener("click", (event) => this.#more(event.currentTarget));
    byId("import").addEventListener("change", (event) => this.#import(event.target));
  }

  /** The name of a new session. */
  static fresh() {
    return crypto.randomUUID?.() ?? `chat-${Date.now()}`; // only over https or on this machine
  }

  /** Draw the list anew; returns it. */
  async refresh() {
    const words = this.#search.value.trim();
    const found = (await api.sessions(words)).sessions.map(named);
    await released();
    if (words !== this.#search.value.trim()) return found; // a newer one is on its way
    for (const session of found) this.#known.set(session.name, session);
    this.#draw(found, words);
    this.mark();
    return found;
  }

  /** Show which one is open. */
  mark() {
    const current = this.#bot.current();
    for (const item of byId("list").querySelectorAll("[data-session]")) {
      item.querySelector(".session").toggleAttribute("aria-current", item.dataset.session === current);
    }
    const title = this.titleOf(current);
    byId("title").textContent = title;
    document.title = `${title} · Parley`;
  }

  titleOf(name) {
    return this.#known.get(name)?.title || t("New conversation");
  }

  /** Open the one above or below. */
  async step(by) {
    const names = [...byId("list").querySelectorAll("[data-session]")].filter((item) => item.checkVisibility?.() ?? true).map((item) => item.dataset.session);
    const next = names[names.indexOf(this.#bot.current()) + by];
    if (next) await this.#bot.open(next);
  }

  // --- the list ------------------------------------------------------------------------------

  #draw(found, words) {
    const isOpen = byId("archived")?.open;
    const shown = this.#all ? found : found.slice(0, FIRST);
    const isAway = ({ standing }) => standing === "archived" && !words;
    const away = shown.filter(isAway);
    const groups = Map.groupBy?.(shown.filter((one) => !away.includes(one)), (one) => groupOf(one, words))
      ?? grouped(shown.filter((one) => !away.includes(one)), (one) => groupOf(one, words));
    const order = [...groups].sort(([one], [other]) => (other === t("Pinned")) - (one === t("Pinned")));
    byId("list").replaceChildren(
      ...order.flatMap(([name, sessions]) => [
        name && h("li", { class: "group" }, h("h3", {}, name)),
        ...sessions.map((session) => this.#item(session, words)),
      ].filter(Boolean)),
      ...(shown.length < found.length ? [h("li", {}, h("button", { type: "button", class: "wide", onclick: () => { this.#all = true; this.refresh().catch((error) => this.#bot.tell(error.message)); } }, t("Show all {n}", { n: found.length })))] : []),
      ...(away.length ? [h("li", { class: "away" }, h("details", { id: "archived", open: isOpen }, h("summary", {}, t("Archived ({n})", { n: found.filter(isAway).length })), h("ul", {}, away.map((session) => this.#item(session, words)))))] : []),
      ...(!found.length && words ? [h("li", { class: "faint" }, t("Nothing found."))] : []),
    );
    this.#drawSelection();
  }

  #item(session, words) {
    const { name, title, channel, snippet } = session;
    const label = title || "…";
    const box = this.#selected && h("input", { type: "checkbox", "aria-label": t("Choose {label}", { label }), checked: this.#selected.has(name), onchange: (event) => {
      this.#selected[event.target.checked ? "add" : "delete"](name);
      this.#drawSelection();
    } });
    return h("li", { "data-session": name },
      box,
      h("button", { type: "button", class: "session", onclick: () => this.#open(session) },
        h("span", { class: "title", dir: "auto" }, label),
        channel !== "web" && h("small", { class: "channel" }, nameOf(channel)),
        snippet && h("small", { class: "snippet", dir: "auto" }, marked(snippet.text, words))),
      !this.#selected && h("button", { type: "button", class: "icon", "aria-haspopup": "menu", "aria-label": t("More for {label}", { label }), onclick: (event) => this.#menu(session, event.currentTarget) }, "⋯"));
  }

  async #open({ name, snippet }) {
    await this.#bot.open(name);
    if (snippet?.turn) await this.#bot.reveal(snippet.turn);
  }

  // --- what can be done with one, and with several ---------------------------------------------

  async #menu(session, button) {
    const isPinned = session.standing === "pinned";
    const isAway = session.standing === "archived";
    const act = await chosen(button, [
      [t("Rename"), () => this.#rename(session)],
      [isPinned ? t("Unpin") : t("Pin"), () => this.#run([session.name], isPinned ? "/pin --unset" : "/pin")],
      [isAway ? t("Unarchive") : t("Archive"), () => this.#run([session.name], isAway ? "/archive --unset" : "/archive")],
      [t("Save as Markdown"), () => this.#export(session, "markdown")],
      [t("Save as JSON"), () => this.#export(session, "json")],
      [t("Delete"), () => this.#delete([session.name], t("Delete “{title}” for good, with all its branches?", { title: session.title }))],
    ]);
    await act?.();
  }

  async #more(button) {
    const act = await chosen(button, [
      [t("Choose several"), () => this.#select(new Set())],
      [t("Import a file"), () => byId("import").click()],
    ]);
    await act?.();
  }

  #select(names) {
    this.#selected = names;
    return this.refresh();
  }

  #drawSelection() {
    const bar = byId("selection");
    bar.hidden = !this.#selected;
    if (!this.#selected) return bar.replaceChildren();
    const names = [...this.#selected];
    const button = (label, act, isOffered = names.length > 0) => h("button", { type: "button", disabled: !isOffered, onclick: act }, label);
    const count = names.length === 1 ? t("1 conversation") : t("{n} conversations", { n: names.length });
    return bar.replaceChildren(
      h("span", { role: "status" }, t("{n} chosen", { n: names.length })),
      button(t("Archive"), async () => { await this.#run(names, "/archive"); await this.#select(null); }),
      button(t("Delete"), () => this.#delete(names, t("Delete {count} for good, with all their branches?", { count }))),
      button(t("Done"), () => this.#select(null), true));
  }

  /** Carry a command out in each of these; returns those where it was. */
  async #run(names, line) {
    const done = [];
    try {
      for (const name of names) {
        const { problem, text } = await this.#bot.command(name, line);
        if (problem) this.#bot.tell(plain(text));
        else done.push(name);
      }
    } catch (error) {
      this.#bot.tell(error.message);
    }
    await this.refresh().catch(console.warn); // it is told already
    return done;
  }

  async #rename({ name, title }) {
    const words = await asked({ question: t("What should this conversation be called?"), label: t("Title"), value: title, action: t("Rename") });
    if (words !== null) await this.#run([name], `/title ${words.trim() || "--unset"}`);
  }

  async #delete(names, question) {
    if (await asked({ question: t("{question} Nothing can bring it back.", { question }), action: t("Delete") }) === null) return;
    this.#selected = null;
    const gone = await this.#run(names, "/forget branches yes");
    for (const name of gone) await this.#bot.forget(name);
    if (!gone.includes(this.#bot.current())) return;
    const left = await this.refresh();
    await this.#bot.open(left[0]?.name ?? Sessions.fresh());
  }

  async #export(session, kind) {
    this.#bot.tell(await download(session, kind).catch((error) => error.message));
  }

  async #import(input) {
    const [file] = input.files;
    input.value = "";
    if (!file) return;
    const name = Sessions.fresh();
    const { text, isTaken } = await importing(name, file).catch((error) => ({ text: error.message }));
    if (isTaken) await this.#bot.open(name);
    await this.refresh();
    this.#bot.tell(text);
  }
}

/** A session with the name that the page has for it: of another channel, both. */
const named = (session) => ({ ...session, name: session.channel === "web" ? session.id : `${session.channel}/${session.id}` });

const grouped = (list, of) => list.reduce((groups, one) => groups.set(of(one), [...groups.get(of(one)) ?? [], one]), new Map());

/** Under which heading a session stands; "" for what was searched. */
function groupOf({ standing, at }, words, now = new Date()) {
  if (words) return "";
  if (standing === "pinned") return t("Pinned");
  const then = new Date(at);
  const days = Math.round((new Date(now).setHours(0, 0, 0, 0) - new Date(then).setHours(0, 0, 0, 0)) / DAY);
  if (days <= 0) return t("Today");
  if (days === 1) return t("Yesterday");
  if (days <= 7) return t("Previous 7 days");
  if (days <= 30) return t("Previous 30 days");
  return then.toLocaleDateString(locale, { month: "long", year: "numeric" });
}

/** A text with what was looked for marked in it. */
function marked(text, words) {
  const wanted = words.split(/\s+/).filter(Boolean).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return text.split(new RegExp(`(${wanted.join("|")})`, "i")).map((piece, index) => (index % 2 ? h("mark", {}, piece) : piece));
}
