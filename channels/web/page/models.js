// The answering model: always shown, and chosen from the endpoint's list and from the agents.
import * as api from "./api.js";
import { fillConnect } from "./connect.js";
import { amount, byId, h, money } from "./dom.js";
import { pieces, t, told } from "./language.js";

const HERE = " --here";

/** Show the answering model at the top of the chat. */
export function showModel(name) {
  byId("model").firstElementChild.textContent = told(name) || t("Model");
  byId("model").title = t("{name}: choose another", { name: told(name) });
  byId("model").ariaLabel = byId("model").title;
}

/** The beginning of the section "Models and keys" of the settings. Here a model is connected. */
export class Connecting {
  #page;
  #form = h("div");
  element;

  constructor(page) {
    this.#page = page;
    this.element = h("section", { id: "connecting" },
      h("button", { type: "button", onclick: () => page.pick() }, t("Choose a model")), this.#form);
  }

  /** Request the form once the section is visible: before signing in, it is refused. */
  refresh() {
    if (this.#form.hasChildNodes()) return;
    const title = h("h4", { hidden: true }, t("Connect a model"));
    this.#form.append(title);
    fillConnect(this.#form, { done: this.#page.connected }).then((offers) => { title.hidden = !offers?.may_connect; });
  }
}

/** Let a person choose a model for one question; resolves to its name, or null. */
export async function chooseModel(session) {
  const found = await offered(session);
  return found && asked({ found, question: t("Choose a model for the answer") }).then((chosen) => chosen?.name ?? null);
}

/** Let a person choose who answers from now on; resolves to the command for that, or null. `connected` hears
    of a model that was connected meanwhile. */
export async function changeModel(session, connected) {
  const [found, agents] = await Promise.all([offered(session), api.command(session, "/agent")]);
  const list = agents.data?.agents ?? [];
  const chosen = found && await asked({ found, agents: list.length > 1 ? list : [], agent: agents.data?.agent,
    question: t("Choose a model"), hasScope: true, connected });
  if (!chosen) return null;
  return chosen.agent ? `/agent ${chosen.agent}` : `/model ${chosen.name}${chosen.scope}`;
}

/** Return the result of /model list; if the endpoint can't be reached, any name may be typed. */
async function offered(session) {
  const reply = await api.command(session, "/model list");
  return reply.data ?? { models: [], model: "", problem: reply.text, may_set: { here: true, everywhere: true } };
}

function asked({ found, agents = [], agent, question, hasScope = false, connected }) {
  const dialog = byId("dialog");
  if (dialog.open) return Promise.resolve(null); // it was opened while the list was being read
  const search = h("input", { type: "search", "aria-label": t("Search models"), placeholder: t("Search, or type a name") });
  const may = found.may_set;
  const scope = h("select", { "aria-label": t("Applies") },
    may.here && h("option", { value: HERE }, t("in this conversation")),
    may.everywhere && h("option", { value: "" }, t("everywhere")));
  const list = h("ul", { class: "models" });
  const more = h("details", { class: "connect", hidden: true }, h("summary", {}, t("Connect a model")));
  return new Promise((resolve) => {
    let chosen = null;
    const choose = (value) => { chosen = { ...value, scope: scope.value }; dialog.close("chosen"); };
    const draw = () => {
      const words = search.value.trim().toLowerCase();
      const fits = (...texts) => texts.join(" ").toLowerCase().includes(words);
      const rows = [
        ...agents.filter(({ id, description }) => fits(id, description)).map((one) => row(one.id, t("agent · {model}", { model: told(one.model) }),
          one.description, one.id === agent, () => choose({ agent: one.id }))),
        ...found.models.filter(({ name }) => fits(told(name))).map((one) => row(told(one.name), ...figures(one),
          one.name === found.model && (!agent || agents.length === 0), () => choose({ name: one.name }))),
      ];
      if (!rows.length && words) rows.push(row(search.value.trim(), t("as typed"), "", false, () => choose({ name: search.value.trim() })));
      list.replaceChildren(...rows);
    };
    search.addEventListener("input", draw);
    search.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      list.querySelector("button")?.click();
    });
    dialog.replaceChildren(h("form", { method: "dialog", class: "picking" }, h("h2", { id: "question" }, question),
      found.problem && h("p", { class: "faint" }, found.problem), search,
      hasScope && h("p", { class: "scope" }, ...pieces("Use the model {where}", { where: scope })), list),
      more, h("form", { method: "dialog" },
      h("div", { class: "choices" }, h("button", { type: "submit", value: "" }, t("Cancel")))));
    draw();
    if (connected) {
      fillConnect(more, { done: (model) => { dialog.close(""); connected(model); } })
        .then((offers) => { more.hidden = !offers?.may_connect; });
    }
    dialog.showModal();
    dialog.addEventListener("close", () => resolve(chosen), { once: true });
  });
}

const row = (name, size, more, isCurrent, onclick) => h("li", {}, h("button", { type: "button", "aria-current": isCurrent ? "true" : null, onclick },
  h("b", {}, name), h("span", { class: "faint" }, size), h("span", { class: "faint" }, more)));

/** A model's window and price, in words. */
const figures = ({ window, price }) => [
  window ? t("window: {n} tokens", { n: amount(window) }) : t("window unknown"),
  price ? t("{read} input, {written} output, per million tokens", { read: money(price[0]), written: money(price[1]) }) : "",
];
