// The costs of all conversations: a bar for each of the last 30 days with costs.
import { addressOf } from "./address.js";
import { h, money } from "./dom.js";
import { locale, t } from "./language.js";

const NAMED = 3; // conversations named per day

export class Costs {
  #page;
  #body = h("div", {});
  element = h("details", { id: "costs", class: "costs" }, h("summary", {}, t("Costs of the last 30 days")), this.#body);

  constructor(page) {
    this.#page = page;
    this.element.addEventListener("toggle", () => this.element.open && this.refresh());
  }

  /** Reload them, if they are visible. */
  async refresh() {
    if (!this.element.open) return;
    try {
      const { data } = await this.#page.run("/usage");
      this.#body.replaceChildren(data?.days?.length ? this.#drawn(data.days) : h("p", { class: "faint" },
        data?.days ? t("Nothing was spent in the last 30 days.") : t("Only an owner sees what all conversations cost.")));
    } catch (error) {
      this.#page.tell(error.message);
    }
  }

  #drawn(days) {
    const most = Math.max(...days.map(({ cost }) => cost));
    return h("ol", { "aria-label": t("Costs by day") }, days.map(({ day, cost, unknown, chats }) => {
      const bar = h("span", { class: "cost-bar", "aria-hidden": "true" }, h("span", {}));
      bar.firstChild.style.inlineSize = most ? `${(cost / most) * 100}%` : "0";
      const named = chats.slice(0, NAMED).map((one) => h("li", {}, titled(one), h("span", { class: "tokens" }, money(one.cost))));
      const more = chats.length - NAMED;
      return h("li", {},
        h("time", { datetime: day }, new Date(`${day}T12:00`).toLocaleDateString(locale, { weekday: "short", day: "numeric", month: "short" })),
        bar, h("span", { class: "tokens" }, money(cost), unknown ? "+" : ""),
        h("ul", {}, named, more > 0 ? h("li", { class: "faint" }, t("{n} more", { n: more })) : ""));
    }));
  }
}

/** A conversation by its title, as a link; by its name if this person may not read the title. */
function titled({ chat, title }) {
  if (!chat) return h("span", {}, t("Requests without a conversation"));
  const name = chat.split("/").map((part) => decodeURIComponent(part)).join("/");
  return h("a", { href: addressOf(name.replace(/^web\//, "")), dir: "auto" }, title || name);
}
