// Connect a model: the bot tries it out before it keeps it, and answers with it from then on. The key goes
// to the bot and never comes back.
import * as api from "./api.js";
import { h } from "./dom.js";
import { t } from "./language.js";

const OWN = "own"; // the choice of a custom address
let forms = 0; // each has its own ids

/** Fill a container with the form; `done` hears which model answers from now on. Nothing is shown to who
    may not connect one. Returns what can be chosen. */
export async function fillConnect(container, { done }) {
  const offers = await api.connection().catch(() => null); // a bot without this feature
  if (!offers?.may_connect) return offers;
  const form = new ConnectForm(offers, done);
  container.append(form.element);
  form.look();
  return offers;
}

/** Return the greeting of a conversation without messages. */
export function greeting(page) {
  const steps = h("div", { class: "first-steps" });
  const element = h("div", { class: "greeting" },
    h("h2", {}, t("What would you like to talk about?")),
    h("p", {}, t("You can see and steer what the model sees: keep a question and its answer (pin), leave them out (drop), summarise older ones (compact), undo. Type / for all commands.")),
    h("div", { class: "choices" },
      h("button", { type: "button", onclick: () => page.run(steps.hasChildNodes() ? "/tour" : "/help") }, t("What can you do?")),
      h("button", { type: "button", class: "shows-context", "data-opens": "context" }, t("Show the context")),
      h("button", { type: "button", onclick: () => page.pick() }, t("Choose a model"))), steps);
  page.welcome(steps);
  return element;
}

/** Fill an empty chat while there is only the demo model: starters, and the form. */
export async function fillWelcome(container, { run, done }) {
  const now = h("p", { class: "faint" });
  const card = h("section", { class: "connect card", "aria-label": t("Connect a model") }, h("h3", {}, t("Connect a model")), now);
  const offers = await fillConnect(card, { done });
  if (!offers?.is_demo) return;
  now.textContent = offers.is_demo_installed
    ? t("The demo model answers now: it runs on this machine, for free, and is often wrong.")
    : t("No model is connected yet. The example needs none.");
  const starter = (name, step) => h("button", { type: "button", onclick: () => run(`/tour ${step}`) }, name);
  container.replaceChildren(
    h("h3", {}, t("Try it on an example")),
    h("div", { class: "choices starters" }, starter(t("Load an example conversation"), "fill"), starter(t("See its next compaction"), "forecast"),
      starter(t("Compact the example"), "compact")), card);
}

/** Offer to connect a model if the newest answer failed and there is only the demo model. */
export async function offerAfterFailure(open) {
  const failed = [...document.querySelectorAll("#log .turn")].at(-1)?.querySelector(".ending.failed");
  const offers = failed && await api.connection().catch(() => null);
  if (!offers?.is_demo || !offers.may_connect || failed.querySelector(".connects")) return;
  failed.append(h("button", { type: "button", class: "connects", onclick: open }, t("Connect a model")));
}

class ConnectForm {
  #offers;
  #done;
  #servers = [];
  #mayReplace = false;
  #isTouched = false;
  #id = `connect-${forms += 1}`;
  #provider = h("select", { id: `${this.#id}-provider` });
  #model = h("input", { id: `${this.#id}-model`, list: `${this.#id}-models`, required: true, maxlength: 200, autocomplete: "off", spellcheck: "false" });
  #only = ""; // the filled-in model, if it is the only one
  #names = h("datalist", { id: `${this.#id}-models` });
  #more = h("div", { class: "wanted" });
  #status = h("p", { class: "status", role: "status" });
  #submit = h("button", { type: "submit", class: "primary" }, t("Test and connect"));

  constructor(offers, done) {
    this.#offers = offers;
    this.#done = done;
    this.element = h("form", { class: "connecting", autocomplete: "off" },
      labelled(t("Provider"), this.#provider), this.#more, labelled(t("Model"), this.#model), this.#names, this.#status,
      h("div", { class: "choices" }, this.#submit));
    this.element.addEventListener("submit", (event) => { event.preventDefault(); this.#connect(); });
    this.element.addEventListener("input", () => { this.#isTouched = true; this.#again(); });
    this.#provider.addEventListener("change", () => this.#draw());
    this.#more.addEventListener("change", () => this.#list());
    this.#drawProviders();
    this.#draw();
  }

  /** Look for servers on the bot's machine; they are offered first. */
  async look() {
    const found = await api.modelServers().catch(() => ({ servers: [] }));
    if (!found.servers.length || !this.element.isConnected) return;
    this.#servers = found.servers;
    const isTouched = this.#isTouched || this.element.contains(document.activeElement) || this.#model.value;
    const chosen = this.#provider.value;
    this.#drawProviders();
    this.#provider.value = isTouched ? chosen : found.servers[0].provider;
    if (!isTouched) this.#draw();
  }

  #drawProviders() {
    const here = this.#servers.map(({ provider, name, models }) => h("option", { value: provider },
      models.length === 1 ? t("{name}: {model}", { name, model: models[0] }) : t("{name}: {n} models", { name, n: models.length })));
    const known = this.#servers.map(({ provider }) => provider);
    const others = this.#offers.providers.filter(({ id }) => !known.includes(id)).map(({ id, name }) => h("option", { value: id }, name));
    this.#provider.replaceChildren(
      here.length ? h("optgroup", { label: t("On this machine") }, here) : "",
      h("optgroup", { label: t("Providers") }, others),
      h("option", { value: OWN }, t("Another address")));
  }

  /** The fields that this provider needs. */
  #draw() {
    const offer = this.#offer();
    const text = (name, label, rest = {}) => labelled(label, h("input", { id: `${this.#id}-${name}`, name, spellcheck: "false", autocomplete: "off", ...rest }));
    this.#more.replaceChildren(...[
      !offer && text("address", t("Address"), { type: "url", required: true, placeholder: "http://127.0.0.1:8000/v1" }),
      ...(offer?.wants ?? []).map((name) => text(name, name, { required: true, "data-variable": true })),
      (!offer || offer.wants_key) && text("key", t("API key"), { type: "password", autocomplete: "new-password", required: Boolean(offer && !offer.has_key),
        placeholder: offer?.has_key ? t("already saved") : offer ? "" : t("leave empty if none is needed") }),
    ].filter(Boolean));
    this.#model.value = "";
    this.#again();
    const here = this.#servers.find(({ provider }) => provider === offer?.id);
    this.#suggest(here?.models ?? []);
    if (here) [this.#model.value] = here.models;
    else if (offer?.is_local || offer?.has_key) this.#list();
  }

  #offer() {
    return this.#offers.providers.find(({ id }) => id === this.#provider.value);
  }

  #filled() {
    const fields = [...this.#more.querySelectorAll("input")];
    const of = (name) => fields.find((one) => one.name === name)?.value.trim() ?? "";
    const variables = fields.filter((one) => one.dataset.variable).map((one) => [one.name, one.value.trim()]);
    const provider = this.#provider.value;
    return { provider: provider === OWN ? "" : provider, address: of("address"), key: of("key"), variables: Object.fromEntries(variables),
      model: this.#model.value.trim() };
  }

  /** Suggest the listed models, once all fields that this needs are filled in. */
  async #list() {
    if ([...this.#more.querySelectorAll("input")].some((one) => !one.validity.valid)) return;
    const filled = this.#filled();
    const { models } = await api.offeredModels({ ...filled, model: "" }).catch(() => ({ models: [] }));
    if (JSON.stringify(this.#filled()) === JSON.stringify({ ...filled, model: this.#model.value.trim() })) this.#suggest(models, true);
  }

  #suggest(models, isAsked = false) {
    this.#names.replaceChildren(...models.map((name) => h("option", { value: name })));
    this.#model.placeholder = models.length ? t("{n} to choose from", { n: models.length }) : isAsked ? t("type its name") : "";
    const isOurs = !this.#model.value || this.#model.value === this.#only;
    this.#only = models.length === 1 ? models[0] : "";
    if (isOurs && document.activeElement !== this.#model) this.#model.value = this.#only;
  }

  /** The input was changed: messages about the earlier input are no longer valid. */
  #again() {
    this.#mayReplace = false;
    this.#status.replaceChildren();
    this.#submit.textContent = t("Test and connect");
  }

  async #connect() {
    this.#say(t("Testing the model…"));
    this.#submit.ariaDisabled = "true";
    const filled = JSON.stringify(this.#filled());
    try {
      const { model, problem, questions } = await api.connectModel({ ...JSON.parse(filled), replace: this.#mayReplace });
      if (model) this.#done(model);
      else if (filled !== JSON.stringify(this.#filled())) this.#again(); // it is about what stood there before
      else if (problem) this.#say(problem, true);
      else this.#ask(questions);
    } catch (error) {
      this.#say(error.message, true);
    } finally {
      this.#submit.ariaDisabled = null;
    }
  }

  /** Lines written by a person would be replaced: only after another press. */
  #ask(questions) {
    this.#say(questions.join(" "));
    this.#mayReplace = true;
    this.#submit.textContent = t("Replace and connect");
    this.#submit.focus();
  }

  #say(text, isProblem = false) {
    this.#status.textContent = text;
    this.#status.classList.toggle("problem", isProblem);
  }
}

const labelled = (label, field) => h("div", { class: "row" }, h("label", { for: field.id }, label), field);
