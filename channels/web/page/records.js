// Parts of the panel about the past: sent requests, receipts of compactions, the memory.
import { explore } from "./explorer.js";
import { amount, byId, h, money } from "./dom.js";
import { t } from "./language.js";
import { cleaned } from "./text.js";

/** Return the facts that a compaction's summary has kept; missing ones can be added. */
export function receipt({ id, receipt: kept, undone }, run) {
  if (!kept?.of) return null;
  const said = t("kept {kept} of {of} names and numbers", { kept: kept.kept, of: kept.of });
  if (!kept.missing.length) return h("span", { class: "receipt faint" }, said);
  return h("details", { class: "receipt", id: `receipt-${id}` }, h("summary", {}, said),
    h("ul", {}, kept.missing.map((fact) => h("li", {}, h("span", { dir: "auto" }, fact),
      !undone && h("button", { type: "button", "aria-label": t("Add {fact}", { fact }), onclick: () => run(`/context keep ${fact}`) }, t("Add"))))));
}

/** The logged requests, as bars: the size of each, and its part from the cache. */
export function timeline(requests, run) {
  const section = h("section", { id: "requests" });
  const most = Math.max(1, ...requests.map(({ prompt, tokens }) => prompt || tokens));
  if (requests.length) {
    section.append(h("p", { class: "bars" }, h("span", { class: "cached" }, t("tokens from the cache")), h("span", {}, t("new tokens"))));
  }
  section.append(requests.length ? h("ol", { class: "requests" }, requests.toReversed().map((one, at, all) => {
    const size = one.prompt || one.tokens;
    const before = all[at + 1];
    const bar = h("span", { class: "bar-of", role: "img", "aria-label": t("{cached} of {n} tokens from the cache", { cached: amount(one.cached), n: amount(size) }) },
      h("span", { class: "cached" }), h("span", { class: "fresh" }));
    bar.children[0].style.inlineSize = `${(one.cached / most) * 100}%`;
    bar.children[1].style.inlineSize = `${((size - one.cached) / most) * 100}%`;
    return h("li", {},
      h("button", { type: "button", class: "id", "aria-label": t("Show {id}", { id: one.id }), onclick: () => explore(t("Request {id}", { id: one.id }), `/context request ${one.id}`, run) }, one.id),
      bar, h("span", { class: "tokens" }, amount(size), one.cost ? ` · ${money(one.cost)}` : ""),
      before && h("button", { type: "button", title: t("Compare {id} with {before}", { id: one.id, before: before.id }), "aria-label": t("Compare {id} with {before}", { id: one.id, before: before.id }), onclick: () => explore(t("{before} and {id} compared", { before: before.id, id: one.id }), `/context diff ${before.id} ${one.id}`, run) }, t("Compare")));
  })) : h("p", { class: "faint" }, t("No request of this conversation is kept.")));
  if (requests.length) section.append(h("p", { class: "faint" }, t("Requests for summaries are not listed.")));
  return section;
}

/** The long-term memory, with the origin of each line. */
export class Remembered {
  element = h("section", { id: "memory" });
  #ask;
  #list = h("div");

  constructor(run, ask) {
    this.#ask = ask;
    this.element.append(h("div", { class: "controls" },
      [[t("Edit"), "/memory edit"], [t("Versions"), "/memory history"]].map(([label, line]) =>
        h("button", { type: "button", "aria-label": t("Memory: {label}", { label }), onclick: async () => {
          await explore(t("Memory"), line, run);
          byId("dialog").addEventListener("close", () => this.refresh(), { once: true });
        } }, label))), this.#list);
  }

  async refresh() {
    const reply = await this.#ask("/memory list");
    if (reply) this.#list.replaceChildren(cleaned(reply.html));
  }
}
