// The answers of commands about requests, summaries and the memory, in a dialog: their buttons and
// forms lead on in it, and one gets back.
import { asked, byId, h, latest } from "./dom.js";
import { field } from "./cards.js";
import { cleaned } from "./text.js";
import { t } from "./language.js";

/** Show the answer of a command, and continue from there. `run` runs a command. */
export async function explore(title, line, run) {
  const dialog = byId("dialog");
  const been = [];
  const begin = latest();
  const body = h("div", { class: "explored", tabindex: 0 });
  const back = h("button", { type: "button", hidden: true, onclick: () => { been.pop(); go(been.pop()); } }, t("Back"));
  dialog.replaceChildren(h("form", { method: "dialog", class: "picture" }, h("h2", { id: "question" }, title)),
    body, h("div", { class: "choices" }, back,
      h("button", { type: "button", class: "primary", onclick: () => dialog.close() }, t("Close"))));

  async function go(command) {
    const isLatest = begin();
    const reply = await run(command, { isQuiet: true });
    if (!isLatest() || !body.isConnected) return reply; // another press, or another dialog, came after it
    if (!reply) return dialog.close();
    been.push(command);
    back.hidden = been.length < 2;
    body.replaceChildren(cleaned(reply.html),
      ...(reply.form ? [field(reply.form, go)] : []),
      h("div", { class: "choices" }, reply.actions.map((action) => h("button", { type: "button", onclick: () => press(action) }, action.label))));
    body.scrollTop = 0;
    return reply;
  }
  async function press({ label, command, asks_first: asksFirst }) {
    if (!asksFirst) return go(command);
    const closed = new Promise((resolve) => { dialog.addEventListener("close", resolve, { once: true }); });
    dialog.close(); // the question needs the dialog
    await closed;
    const isSure = await asked({ question: t("{label}: are you sure?", { label }), action: label }) !== null;
    return explore(title, isSure ? command : been.at(-1), run);
  }
  dialog.showModal();
  await go(line);
}
