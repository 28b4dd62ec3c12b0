// The settings in force, each with where its value comes from; changed by /config. A few matter to
// everybody and have names of their own; all others stand below them, and are found by searching.
import { byId, h } from "./dom.js";
import { locale, marks, t } from "./language.js";
import { NAMES } from "./named.js";
import { withCode } from "./text.js";

const FEW = 12; // values of a range that are offered as a list
const LARGE = 10_000; // a number that is hard to read without separators
const SHORT = 20; // maximum characters of a value beside its name
const LONG = 200; // minimum characters of a setting that is written in several lines

/** The most important settings: their names, and the meanings of their values. */
const NAMED = {
  model: { name: t("Model in use"), help: t("The name of the model, or “embedded” for the demo model.") },
  system_prompt: { name: t("Instructions"), help: t("Sent to the model before each conversation: its role, and how to answer.") },
  "context.strategy": {
    name: t("When the conversation gets long"),
    help: t("The form in which older turns are sent to the model. No turn is deleted."),
    values: {
      trim: t("Summarise the oldest turns"),
      slim: t("Keep a line for each older turn"),
      full: t("Send everything"),
      truncate: t("Drop older turns"),
      summarize: t("Summarise all but the newest"),
      structured: t("Summarise in five fields"),
      stubs: t("Shorten old tool results"),
    },
  },
  agent_max_context_turns: { name: t("Turns in context"), help: t("If there are more, the oldest are summarised.") },
  agent_max_context_tokens: { name: t("Context size"), help: t("A larger context keeps more turns word for word, and each answer costs more.") },
  "context.compaction_approval": {
    name: t("Before older turns are summarised"),
    help: t("With “Ask me first”, you can edit the summary before it is used."),
    values: { off: t("Compact without asking"), show: t("Show the new summary"), ask: t("Ask me first") },
  },
  "tools.web_fetch": { name: t("Read web pages"), help: t("The bot asks you before it reads a page, unless you allow the whole site.") },
  session_retention_days: {
    name: t("Delete conversations after"),
    help: t("A conversation without a message for so many days is deleted, after its content was written to the daily memory. 0 keeps all."),
  },
  restore: {
    name: t("Context after a restart"),
    help: t("“Only the newest turns”: a sixth of the turns in context, at least 3, each as its question and its answer. It needs the strategy trim."),
    values: { exact: t("The same as before"), recent: t("Only the newest turns") },
  },
  "memory.approve": {
    name: t("Suggested memory lines"),
    help: t("Lines that /memory distill suggests. /memory diff shows them, and /memory undo takes them back."),
    values: { ask: t("Ask me first"), auto: t("Apply at once") },
  },
  spend_limit_total: { name: t("Monthly budget"), help: t("All conversations together. 0 is no limit.") },
};

/** Return how older turns are handled, in words. */
export const nameOfStrategy = (strategy) => NAMED["context.strategy"].values[strategy] ?? strategy;

/** The section of the dialog for a setting; the first, if no other has it. */
const SECTIONS = [
  ["models", /^(model|fallback_models|agent|request_timeout|spend_.*|voice\..*|context\.summary_brain\..*)$/],
  ["context", /^(context\.|agent_max_context_)/],
  ["memory", /^(memory|rules|search)\.|^(restore|session_retention_days)$/],
  ["people", /^(owners|users_may_set|messages_per_minute)$/],
];
const FIRST = "general";
const sectionOf = (key) => SECTIONS.find(([, keys]) => keys.test(key))?.[0] ?? FIRST;

const LAYERS = {
  "--here": t("Set in this conversation"),
  "/config": t("Set everywhere"),
  file: t("From the configuration file"),
  environment: t("From the environment"),
  default: t("Default"),
};

export class Settings {
  #page;
  #settings = [];
  #drawn = "";
  #words = [];
  #isSeen = false;
  #sections = new Map([FIRST, ...SECTIONS.map(([name]) => name)].map((name) => [name, {
    few: h("ul", { class: "few" }),
    more: h("details", { class: "more" }, h("summary", {}, t("More settings")), h("ul")),
  }]));

  constructor(page) {
    this.#page = page;
  }

  /** Return the content of a section of the dialog. */
  parts(name) {
    const { few, more } = this.#sections.get(name);
    return [few, more];
  }

  /** These are in force; they are drawn while the dialog is open. */
  update(settings) {
    this.#settings = settings;
    if (byId("preferences").open) this.draw();
  }

  /** Draw them, unless one is being changed: they are drawn when that is sent. */
  draw(isAnew = false, sent = null) {
    const settings = this.#settings;
    const now = JSON.stringify(settings);
    if ((!isAnew && now === this.#drawn) || (document.activeElement !== sent && isTyped(document.activeElement))) return;
    this.#drawn = now;
    const scopes = new Map([...document.querySelectorAll("select[data-scope]")].map((one) => [one.dataset.scope, one.value]));
    const rows = (name, found) => found.filter((one) => one && sectionOf(one.key) === name).map((setting) => this.#row(setting, scopes.get(setting.key)));
    this.#fill(rows);
    this.#isSeen = settings.length > 0;
    this.#filter();
  }

  #fill(rows) {
    const settings = this.#settings;
    for (const [name, { few, more }] of this.#sections) {
      few.replaceChildren(...rows(name, Object.keys(NAMED).map((key) => settings.find((one) => one.key === key))));
      more.lastChild.replaceChildren(...rows(name, settings.filter(({ key }) => !(key in NAMED))));
      if (!few.children.length && !this.#isSeen) more.open = true; // otherwise it would be empty
    }
  }

  /** Show only the settings with all of these words, folded or not; all if there are none. */
  search(words) {
    if (words.length !== this.#words.length && !(words.length && this.#words.length)) {
      for (const { more } of this.#sections.values()) more.open = words.length > 0;
    }
    this.#words = words;
    this.#filter();
  }

  #filter() {
    for (const item of document.querySelectorAll("[data-words]")) item.hidden = !this.#words.every((word) => item.dataset.words.includes(word));
  }

  #row(setting, chosen) {
    const { key, meaning, layer, unit } = setting;
    const { name = NAMES[key] ?? key, help = meaning } = NAMED[key] ?? {};
    const id = `setting-${key.replaceAll(".", "-")}`;
    const scope = scopeOf(setting, name, chosen);
    const field = setting.is_fixed ? h("output", { id }, shown(setting)) : this.#field(setting, id, () => scope?.value ?? "");
    field.setAttribute("aria-describedby", `${id}-help`);
    const isSet = layer === "--here" || layer === "/config";
    return h("li", { "data-words": `${key} ${name} ${help}`.toLowerCase(), class: field.matches("textarea") || NAMED[key]?.values || written(setting).length > SHORT ? "long" : "" },
      h("label", { for: id }, name === key ? breakable(key) : name),
      h("span", { class: "value" }, field, field.type === "number" ? unitOf(field, unit) : unit && h("span", { class: "unit" }, unit)),
      h("p", { class: "help", id: `${id}-help` }, withCode(help), setting.wants && !setting.choices.length && !(key in NAMED) ? marks.space + t("It can be {wants}.", { wants: setting.wants }) : "",
        setting.holds === "from the next start on" && !setting.is_fixed ? marks.space + t("A change takes effect at the next start.") : ""),
      h("p", { class: "source" },
        h("span", {}, LAYERS[layer] ?? t("From {layer}", { layer }), name !== key ? [" · ", h("code", {}, NAMED[key]?.values ? `${key} ${written(setting)}` : key)] : ""),
        setting.is_fixed ? h("span", {}, t("Changed in the configuration, not here")) : scope ?? h("span", {}, t("For all conversations")),
        isSet && h("button", { type: "button", "aria-label": t("Reset {name}", { name }), onclick: () => this.#run(`/config ${key} --unset${layer === "--here" ? " --here" : ""}`) }, t("Reset"))));
  }

  #field(setting, id, scope) {
    const field = control(setting, id);
    field.addEventListener("change", () => this.#run(`/config ${setting.key} ${typed(setting, field)}${scope()}`, field));
    return field;
  }

  async #run(line, field) {
    const settings = await this.#page.run(line);
    if (!settings) return;
    this.#settings = settings;
    this.draw(true, field);
  }
}

/** Return where a change of this setting applies, as it was `chosen`, if it was; null where that can only be
    everywhere. */
function scopeOf({ key, is_per_conversation: isLocal, is_fixed: isFixed, layer }, name, chosen) {
  if (!isLocal || isFixed) return null;
  const here = chosen === undefined ? layer !== "/config" : chosen === " --here";
  return h("select", { "aria-label": t("{name}: scope of a change", { name }), "data-scope": key },
    h("option", { value: " --here", selected: here }, t("For this conversation")),
    h("option", { value: "", selected: !here }, t("For all conversations")));
}

function control(setting, id) {
  const value = written(setting);
  const { values = {} } = NAMED[setting.key] ?? {};
  if (typeof setting.value === "boolean") return h("input", { id, type: "checkbox", role: "switch", checked: setting.value });
  const choices = choicesOf(setting);
  if (choices.length) {
    return h("select", { id }, choices.map((choice) => h("option", { value: choice, selected: choice === value }, values[choice] ?? choice)));
  }
  const most = isList(setting) ? LONG : Number(setting.takes.match(/text of at most (\d+)/)?.[1] ?? 0);
  if (most >= LONG) {
    const area = h("textarea", { id, rows: Math.min(8, Math.max(3, value.split("\n").length + 1)), dir: "auto" });
    area.defaultValue = value;
    return area;
  }
  return h("input", { id, value, type: typeof setting.value === "number" ? "number" : "text", step: "any" });
}

/** Return the unit beside a field, after a large number in the language's form, which the field itself does not have. */
function unitOf(field, unit) {
  const element = h("span", { class: "unit" });
  const draw = () => {
    const number = Math.abs(field.value) >= LARGE ? `= ${Number(field.value).toLocaleString(locale)}` : "";
    element.textContent = [number, unit].filter(Boolean).join(" ");
  };
  field.addEventListener("input", draw);
  draw();
  return element;
}

/** Return the values that a setting may have, if they are a short list. */
function choicesOf({ choices, takes }) {
  if (choices.length) return choices;
  const [, low, high] = takes.match(/whole number from (\d+) to (\d+)/) ?? [];
  if (high === undefined || high - low >= FEW) return [];
  return Array.from({ length: high - low + 1 }, (_, step) => String(Number(low) + step));
}

/** Return whether it is a list of objects, which is written as JSON. */
const isList = ({ value, takes }) => Array.isArray(value) && /\brules\b/.test(takes);

function written(setting) {
  const { value } = setting;
  if (typeof value === "string") return value;
  if (typeof value === "number") return value.toLocaleString("en", { useGrouping: false, maximumSignificantDigits: 17 }); // never 1e-7
  return Array.isArray(value) && !isList(setting) ? value.join(", ") : JSON.stringify(value, null, 2);
}

/** Return whether a field of a setting has unsaved text. */
const isTyped = (field) => field.matches("[data-words] :is(textarea, input:not([type=checkbox]))") && field.value !== field.defaultValue;

/** The name of a setting, which may wrap behind a mark in it. */
const breakable = (key) => key.split(/(?<=[._])/).flatMap((piece) => [piece, h("wbr")]);

const shown = (setting) => written(setting) || t("(none)");

/** Return the typed value, so that /config reads it unchanged; text is JSON, which keeps its spaces. */
function typed({ value }, field) {
  if (field.type === "checkbox") return String(field.checked);
  return typeof value === "string" ? JSON.stringify(field.value) : field.value.trim() || '""';
}
