// The settings in force, each with the layer that it comes from; changed by /config.
import { h } from "./dom.js";

const FEW = 12; // values of a range that are offered as a list
const FIRST = /^(context\.|agent_|model$|system_prompt$)/; // those that concern the context come first

/** The settings as a form; `run` carries a command line out. */
export function drawnSettings(settings, run) {
  const scope = h("select", { "aria-label": "Where a change applies" },
    h("option", { value: " --here" }, "in this conversation"),
    h("option", { value: "" }, "everywhere"));
  const change = (setting, value) =>
    run(`/config ${setting.key} ${value}${setting.is_per_conversation ? scope.value : ""}`);
  const ordered = [...settings].sort((one, other) => FIRST.test(other.key) - FIRST.test(one.key));
  return h("div", {},
    h("p", { class: "scope" }, h("span", {}, "A change applies "), scope),
    h("ul", {}, ordered.map((setting) => drawn(setting, change, run))));
}

function drawn(setting, change, run) {
  const id = `setting-${setting.key.replaceAll(".", "-")}`;
  const back = setting.layer === "--here" ? " --here" : setting.layer === "/config" ? "" : null;
  const field = control(setting, id);
  field.addEventListener("change", () => change(setting, typed(setting, field)));
  return h("li", {},
    h("label", { for: id, title: setting.meaning }, setting.key),
    field,
    h("span", { class: "faint" }, setting.unit ? `${setting.unit} · ` : "", `from: ${setting.layer}`),
    back !== null && h("button", { type: "button", "aria-label": `Reset ${setting.key}`,
      onclick: () => run(`/config ${setting.key} --unset${back}`) }, "Reset"));
}

function control(setting, id) {
  const choices = choicesOf(setting);
  const value = written(setting.value);
  if (choices.length) {
    return h("select", { id }, choices.map((choice) => h("option", { value: choice, selected: choice === value }, choice)));
  }
  return h("input", { id, value, type: typeof setting.value === "number" ? "number" : "text", step: "any" });
}

/** What a setting may be, where that is a short list. */
function choicesOf({ choices, value, wants }) {
  if (choices.length) return choices;
  if (typeof value === "boolean") return ["true", "false"];
  const [, low, high] = wants.match(/whole number from (\d+) to (\d+)/) ?? [];
  if (high === undefined || high - low >= FEW) return [];
  return Array.from({ length: high - low + 1 }, (_, step) => String(Number(low) + step));
}

const written = (value) => typeof value === "string" ? value : Array.isArray(value) ? value.join(", ") : JSON.stringify(value);

/** What was typed, so that /config reads it as it stands; text is JSON, which keeps its spaces. */
function typed({ value }, field) {
  return typeof value === "string" ? JSON.stringify(field.value) : field.value.trim() || '""';
}
