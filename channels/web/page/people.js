// The accounts of the page, and where people are signed in: their own for each person, all for an owner.
import * as api from "./api.js";
import { plain } from "./cards.js";
import { asked, fill, h, moment, released } from "./dom.js";
import { t } from "./language.js";
import { copying } from "./text.js";

const SYSTEMS = [["iPhone", /iPhone/], ["iPad", /iPad/], ["Android", /Android/], ["Windows", /Windows/], ["macOS", /Mac OS X/], ["Linux", /Linux/]];
const BROWSERS = [["Edge", /Edg/], ["Opera", /OPR/], ["Firefox", /Firefox|FxiOS/], ["Chrome", /Chrom|CriOS/], ["Safari", /Safari/]];
const OWN = "the owner, by the token"; // the name in /logins of a person without a name

export class People {
  #boxes = [h("div"), h("div"), h("div"), h("div")];
  element = h("div", { class: "people", id: "people" }, this.#boxes);
  #page;
  #isDrawing = false;
  #forms; // drawn once: what is typed in them, and a link that works once, stay

  constructor(page) {
    this.#page = page;
    this.#forms = { invitation: this.#invitation(), password: this.#password() };
  }

  /** Request and redraw; the forms stay as they are. */
  async refresh() {
    if (this.#isDrawing) return;
    this.#isDrawing = true;
    try {
      const [me, users, logins] = await Promise.all([api.me(), this.#page.ask("/users"), this.#page.ask("/logins")]);
      const found = logins.data?.logins ?? [];
      const isOwner = Boolean(users.data);
      await released();
      const parts = [
        isOwner && this.#people(users.data.known, found), isOwner && this.#forms.invitation,
        found.length > 0 ? this.#logins(found, me, isOwner) : !isOwner && h("p", { class: "help" }, t("No account is signed in.")),
        me.user && this.#forms.password,
      ];
      this.#boxes.forEach((box, at) => fill(box, ...[parts[at]].filter(Boolean)));
    } catch (error) {
      this.#page.tell(error.message);
    } finally {
      this.#isDrawing = false;
    }
  }

  async #run(line) {
    const reply = await this.#page.ask(line).catch((error) => ({ text: error.message, problem: "unavailable" }));
    this.#page.tell(plain(reply.text));
    if (!reply.problem) await this.refresh();
    return reply;
  }

  #people(known, logins) {
    const rows = known.map((one) => {
      const theirs = logins.filter(({ who }) => who === one.id);
      const last = Math.max(...theirs.map(({ used }) => used));
      const [channel, name] = one.id.replace(/^chat /, "").split(/\/(.*)/s);
      return h("li", {},
        h("span", {}, h("b", { dir: "auto" }, one.name || name), " ", h("span", { class: "chip" }, one.role === "owner" ? t("owner") : t("user")),
          h("small", {}, channel === "web" ? theirs.length ? t("last seen {when}; browsers signed in: {count}", { when: moment(last * 1000), count: theirs.length }) : t("not signed in") : channel)),
        h("button", { type: "button", "aria-label": t("Revoke {name}", { name: one.id }), onclick: async () => {
          const question = t("Remove {name}'s access? Their browsers are signed out at once.", { name: one.name || name });
          if (await asked({ question, action: t("Revoke"), isFinal: true }) !== null) this.#run(`/revoke ${one.id}`);
        } }, t("Revoke")));
    });
    return h("section", {}, h("h4", {}, t("People with access")),
      rows.length ? h("ul", { "aria-label": t("People with access") }, rows) : h("p", { class: "help" }, t("Only you.")));
  }

  #invitation() {
    const name = h("input", { type: "text", "aria-label": t("Name of the person"), placeholder: t("Name"), autocomplete: "off", required: true, maxlength: 60, pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*" });
    const owner = h("input", { type: "checkbox", role: "switch" });
    const link = h("div", { role: "status" });
    const form = h("form", { class: "inviting" }, name, h("button", { type: "submit" }, t("Invite")),
      h("label", {}, owner, " ", t("as an owner, with the same rights as you")), link);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const reply = await this.#page.ask(`/invite ${name.value}${owner.checked ? " owner" : ""}`).catch((error) => ({ text: error.message }));
      if (!reply.data) return link.replaceChildren(h("p", { class: "wrong" }, plain(reply.text)));
      const address = new URL(reply.data.link, location.href).href;
      const field = h("input", { type: "text", readonly: true, value: address, "aria-label": t("The link for {name}", { name: reply.data.name }) });
      field.addEventListener("focus", () => field.select());
      link.replaceChildren(
        h("p", { class: "help" }, t("Send this link to {name}, and to nobody else: the first to open it gets access. It works once, within three days.", { name: reply.data.name })),
        h("div", { class: "choices" }, field, copying(address, t("Copy the link"))));
      return form.reset();
    });
    return h("section", {}, h("h4", {}, t("Invite somebody")), form);
  }

  #logins(found, me, isOwner) {
    const rows = [...found].sort((one, other) => other.used - one.used).map(({ number, who, browser, used }) => h("li", {},
      h("span", { title: browser }, h("b", {}, called(browser)),
        h("small", {}, isOwner ? `${who === OWN ? t("Owner") : who.replace(/^web\//, "")} · ` : "", t("last used {when}", { when: moment(used * 1000) }))),
      number === me.login ? h("span", { class: "chip" }, t("This browser"))
        : h("button", { type: "button", "aria-label": t("Sign out {number}", { number }), onclick: () => this.#run(`/logins end ${number}`) }, t("Sign out"))));
    const title = isOwner ? t("Signed in") : t("Signed-in browsers");
    return h("section", {}, h("h4", {}, title), h("ul", { "aria-label": title }, rows));
  }

  #password() {
    const field = (label, autocomplete) => h("input", { type: "password", "aria-label": label, placeholder: label, autocomplete });
    const [now, next] = [field(t("Current password, if you have one"), "current-password"), field(t("New password"), "new-password")];
    const said = h("p", { class: "help", role: "status" }, t("At least 10 characters. Your other browsers are signed out."));
    const form = h("form", { class: "passwords" }, now, next, h("button", { type: "submit" }, t("Change password")), said);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const isFit = next.value.length >= 10 && next.value.length <= 200;
      said.className = isFit ? "help" : "wrong";
      said.textContent = isFit ? "…" : t("A password has 10 to 200 characters.");
      if (!isFit) return next.focus();
      try {
        await api.changePassword(now.value, next.value);
        form.reset();
        said.textContent = t("At least 10 characters. Your other browsers are signed out.");
        this.#page.tell(t("Your password is changed."));
        return this.refresh();
      } catch (error) {
        said.className = "wrong";
        said.textContent = error.message;
        return now.focus();
      }
    });
    return h("section", {}, h("h4", {}, t("Your password")), form);
  }
}

/** A browser by its own description: "Firefox on Linux". */
function called(agent) {
  const [browser, system] = [BROWSERS, SYSTEMS].map((all) => all.find(([, pattern]) => pattern.test(agent))?.[0]);
  if (browser && system) return t("{browser} on {system}", { browser, system });
  return browser ?? system ?? (agent.slice(0, 40) || t("Unknown browser"));
}
