// The left column: conversations of all channels, by date; searched, renamed, pinned, archived.
import * as api from "./api.js";
import { plain } from "./cards.js";
import { asked, byId, h, latest, released } from "./dom.js";
import { icon } from "./icons.js";
import { chosen } from "./menu.js";
import { download, importing } from "./transfer.js";
import { locale, t } from "./language.js";
import { recall, remember } from "./storage.js";

const PAUSE = 200; // milliseconds without input after which a search begins
const PAGE = 100; // read and drawn at once
const DAY = 24 * 3600 * 1000;
const CHANNELS = { terminal: t("Terminal"), wecom: "WeCom", whatsapp: "WhatsApp" };

/** Return the name of a channel. */
export const nameOf = (channel) => CHANNELS[channel] ?? channel.replace(/^./, (letter) => letter.toUpperCase());

export class Sessions {
  #bot;
  #search = byId("search");
  #known = new Map(); // by name: all that were ever listed
  #selected = null; // names, while several are chosen
  #found = []; // as far as they are listed
  #words = ""; // the words of the search
  #next = ""; // the position at which the list continues
  #isLoading = false;
  #timer = 0;
  #begin = latest();
  #end = new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && this.#more().catch(console.warn), { root: byId("list"), rootMargin: "400px" });

  constructor(bot) {
    this.#bot = bot;
    this.#search.addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.refresh().catch((error) => bot.tell(error.message)), PAUSE);
    });
    this.#search.addEventListener("keydown", async (event) => {
      if (event.isComposing || !["ArrowDown", "Enter"].includes(event.key)) return;
      event.preventDefault();
      clearTimeout(this.#timer);
      await this.refresh().catch((error) => bot.tell(error.message)); // the shown results may be for fewer letters
      const first = byId("list").querySelector(".session");
      if (event.key === "Enter") first?.click();
      else first?.focus();
    });
    byId("new").addEventListener("click", () => bot.open(Sessions.next()));
    byId("more").addEventListener("click", (event) => this.#offer(event.currentTarget));
    byId("import").addEventListener("change", (event) => this.#import(event.target));
  }

  /** The name of a new session. */
  static fresh() {
    return crypto.randomUUID?.() ?? `chat-${Date.now()}`; // only over https or on this machine
  }

  /** The session of “New conversation”: one that was left before its first message was sent, or a new one. */
  static next() {
    const left = recall("unsent");
    remember("unsent", null);
    return left ?? Sessions.fresh();
  }

  /** Redraw the list, as far as it was shown; returns it. */
  async refresh() {
    const words = this.#search.value.trim();
    const isLatest = this.#begin();
    const isSame = words === this.#words;
    const found = await this.#fetch({ limit: isSame ? Math.max(PAGE, this.#found.length) : PAGE }, isLatest);
    await released();
    if (!isLatest() || words !== this.#search.value.trim()) return found.sessions; // a newer one is on its way
    this.#words = words;
    this.#found = found.sessions;
    this.#next = found.next;
    this.#draw();
    if (!isSame) byId("list").scrollTop = 0; // the best is at the top
    this.mark();
    return this.#found;
  }

  /** Show the next entries of the list, below the existing ones. */
  async #more() {
    if (!this.#next || this.#isLoading) return;
    this.#isLoading = true;
    const after = this.#next;
    try {
      const { sessions, next } = await this.#fetch({ after, limit: PAGE });
      if (after !== this.#next) return; // the list has changed meanwhile
      const known = new Set(this.#found.map(({ name }) => name));
      const more = sessions.filter(({ name }) => !known.has(name));
      this.#found.push(...more);
      this.#next = next;
      this.#append(more);
      this.mark();
    } finally {
      this.#isLoading = false;
    }
  }

  /** Return a part of the list; a late one replaces nothing that is known. */
  async #fetch(part, isLatest = () => true) {
    const words = this.#search.value.trim();
    const current = this.#bot.current() ?? "";
    const { sessions, next, open } = await api.sessions({ words, open: current, ...part });
    const found = sessions.map(named);
    if (!words && isLatest()) this.#known.delete(current); // it may have been deleted elsewhere
    for (const session of open ? [...found, named(open)] : found) {
      if (isLatest() || !this.#known.has(session.name)) this.#known.set(session.name, session);
    }
    return { sessions: found, next };
  }

  /** Mark the open one. */
  mark() {
    const current = this.#bot.current();
    for (const item of byId("list").querySelectorAll("[data-session]")) {
      item.querySelector(".session").toggleAttribute("aria-current", item.dataset.session === current);
    }
    const title = this.titleOf(current);
    byId("title").textContent = title;
    document.title = `${title} · Parley`;
  }

  /** Return whether it was ever listed, and not deleted since. */
  knows(name) {
    return this.#known.has(name);
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

  #draw() {
    this.#fill(byId("archived")?.open);
    this.#drawSelection();
  }

  #fill(isOpen) {
    byId("list").replaceChildren();
    this.#append(this.#found);
    if (byId("archived")) byId("archived").open = isOpen;
    if (!this.#found.length && this.#words) byId("list").append(h("li", { class: "faint" }, t("Nothing found.")));
  }

  /** Draw more of the list below the existing part: under its dates, with archived ones in a separate part. */
  #append(sessions) {
    const list = byId("list");
    list.querySelector(":scope > .rest")?.remove();
    const isAway = ({ standing }) => standing === "archived" && !this.#words;
    let last = [...list.querySelectorAll(":scope > .group")].at(-1)?.textContent ?? "";
    for (const session of sessions.filter((one) => !isAway(one))) {
      const group = groupOf(session, this.#words);
      if (group && group !== last) list.append(h("li", { class: "group" }, h("h3", {}, group)));
      last = group;
      list.append(this.#item(session, this.#words));
    }
    const away = sessions.filter(isAway);
    if (away.length && !byId("archived")) list.append(h("li", { class: "away" }, h("details", { id: "archived" }, h("summary"), h("ul"))));
    byId("archived")?.querySelector("ul").append(...away.map((session) => this.#item(session, this.#words)));
    byId("archived")?.querySelector("summary").replaceChildren(t("Archived ({n})", { n: this.#found.filter(isAway).length }));
    if (this.#next) this.#offerMore(list);
  }

  /** The end of the drawn part: scrolling there loads more, and it can be pressed. */
  #offerMore(list) {
    const show = () => this.#more().catch((error) => this.#bot.tell(error.message));
    list.append(h("li", { class: "rest" }, h("button", { type: "button", class: "wide", onclick: show }, t("Show more"))));
    this.#end.disconnect();
    this.#end.observe(list.lastChild);
  }

  #item(session, words) {
    const { name, title, channel, snippet, private: isPrivate } = session;
    const label = title || "…";
    const box = this.#selected && h("input", { type: "checkbox", "aria-label": t("Choose {label}", { label }), checked: this.#selected.has(name), onchange: (event) => {
      this.#selected[event.target.checked ? "add" : "delete"](name);
      this.#drawSelection();
    } });
    return h("li", { "data-session": name },
      box,
      h("button", { type: "button", class: "session", onclick: () => this.#open(session) },
        h("span", { class: "title", dir: "auto" }, label),
        isPrivate && h("small", { class: "channel" }, t("Off the record now")),
        channel !== "web" && h("small", { class: "channel" }, nameOf(channel)),
        snippet && h("small", { class: "snippet", dir: "auto" }, marked(snippet.text, words))),
      !this.#selected && h("button", { type: "button", class: "icon", "aria-haspopup": "menu", "aria-label": t("More for {label}", { label }), onclick: (event) => this.#menu(session, event.currentTarget) }, icon("more")));
  }

  async #open({ name, snippet }) {
    await this.#bot.open(name);
    if (snippet?.turn && this.#bot.current() === name) await this.#bot.reveal(snippet.turn);
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

  async #offer(button) {
    const act = await chosen(button, [
      [t("Select several"), () => this.#select(new Set())],
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

  /** Run a command in each of these; returns those in which it succeeded. */
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
    await this.refresh().catch(console.warn); // it is reported already
    return done;
  }

  async #rename({ name, title }) {
    const words = await asked({ question: t("Rename the conversation"), label: t("Title"), value: title, action: t("Rename") });
    if (words !== null) await this.#run([name], `/title ${words.trim() || "--unset"}`);
  }

  async #delete(names, question) {
    if (await asked({ question: t("{question} This can't be undone.", { question }), action: t("Delete"), isFinal: true }) === null) return;
    this.#selected = null;
    const gone = await this.#run(names, "/forget branches yes");
    for (const name of gone) {
      this.#known.delete(name);
      await this.#bot.forget(name);
    }
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
    const before = this.#bot.current();
    const { text, isTaken } = await importing(name, file).catch((error) => ({ text: error.message }));
    if (isTaken && this.#bot.current() === before) await this.#bot.open(name);
    await this.refresh();
    this.#bot.tell(text);
  }
}

/** A session with the page's name for it; with the channel, if it is another one. */
const named = (session) => ({ ...session, name: session.channel === "web" ? session.id : `${session.channel}/${session.id}` });

/** The heading of a session; "" for search results. */
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

/** A text with the search words marked in it. */
function marked(text, words) {
  const wanted = words.split(/[\s"“”„«»「」『』]+/).filter(Boolean).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return !wanted.length ? text : text.split(new RegExp(`(${wanted.join("|")})`, "i")).map((piece, index) => (index % 2 ? h("mark", {}, piece) : piece));
}
