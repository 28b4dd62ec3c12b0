// The dialog of the settings: its sections, and the search over all of them.
import { byId, h } from "./dom.js";
import { icon } from "./icons.js";
import { t } from "./language.js";
import { tabbed } from "./tabs.js";

const SECTIONS = [
  ["general", t("General")], ["models", t("Models and keys")], ["context", t("Context")], ["memory", t("Memory")],
  ["people", t("People")], ["browser", t("This browser")],
];

export class Preferences {
  #dialog = byId("preferences");
  #said = h("p", { class: "said", role: "status" });
  #search = h("input", { type: "search", placeholder: t("Search all settings"), "aria-label": t("Search all settings"), autocomplete: "off" });
  #panels = new Map();
  #show;
  #shown = "general";

  /** `parts` are the elements of each section, by its name; `opened` is told which section is shown, `searched` the
      words that are searched for. */
  constructor(parts, { opened, searched }) {
    const tabs = h("div", { role: "tablist", "aria-label": t("Settings"), "aria-orientation": "vertical" },
      SECTIONS.map(([name, title]) => h("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `section-${name}` }, title)));
    for (const [name, title] of SECTIONS) {
      this.#panels.set(name, h("div", { id: `section-${name}`, class: "settings", role: "tabpanel", "aria-labelledby": `tab-${name}`, tabindex: 0 },
        h("h3", {}, title), ...parts[name]));
    }
    this.#dialog.replaceChildren(
      h("div", { class: "bar" }, h("h2", { id: "preferences-title" }, t("Settings")), h("p", { class: "help" }, t("Changes are saved at once.")), this.#search,
        h("button", { type: "button", class: "icon", "aria-label": t("Close settings"), onclick: () => this.#dialog.close() }, icon("close"))),
      h("div", { class: "sections" }, tabs, h("div", { class: "scroll" }, [...this.#panels.values()], h("p", { class: "nothing", role: "status" }, t("Nothing found.")))),
      this.#said);
    this.#show = tabbed(tabs, (panel) => {
      this.#shown = panel.replace("section-", "");
      this.#dialog.querySelector(".scroll").scrollTop = 0;
      if (this.isOpen) opened(this.#shown);
    });
    this.#search.addEventListener("input", () => {
      const words = this.#search.value.toLowerCase().split(/\s+/).filter(Boolean);
      this.#dialog.classList.toggle("searching", words.length > 0);
      for (const panel of this.#panels.values()) panel.hidden = false;
      if (!words.length) this.#show(`section-${this.#shown}`);
      searched(words);
    });
    tabs.addEventListener("click", () => this.#forget(), true);
    this.#dialog.addEventListener("click", (event) => { if (event.target === this.#dialog) this.#dialog.close(); });
    this.#show("section-general");
  }

  get isOpen() {
    return this.#dialog.open;
  }

  #forget() {
    if (!this.#search.value) return;
    this.#search.value = "";
    this.#search.dispatchEvent(new Event("input"));
  }

  /** Open it, at a section if one is named. */
  open(name = this.#shown) {
    this.tell("");
    this.#forget();
    if (!this.isOpen) this.#dialog.showModal();
    this.#show(`section-${name}`);
    byId(`tab-${name}`).focus();
  }

  /** Show a message that is visible while the dialog is open. */
  tell(text) {
    this.#said.textContent = text;
  }
}
