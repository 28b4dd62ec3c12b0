// A cut that waits for approval: the summary is in a field, to be changed and approved.
import { h } from "./dom.js";
import { t } from "./language.js";

const APPROVE = /^\/context approve (s\d+)$/;

/** The name of the summary that a reply asks about; undefined if it asks for none. */
export const waitsFor = (reply) => reply.actions.map(({ command }) => command.match(APPROVE)?.[1]).find(Boolean);

/** Put the field into a card, replacing the quoted summary and the buttons. */
export async function approval(card, name, page) {
  const asked = await page.ask(`/context summary edit ${name}`);
  if (!asked?.form || !page.isOpen()) return; // it no longer waits, or is being answered by a button
  const area = h("textarea", { class: "answer", dir: "auto", rows: 6, "aria-label": t("Summary {name}", { name }) });
  area.value = asked.form.text;
  let [before, now] = [area.value, name];
  const say = h("p", { class: "faint", role: "status" });
  const buttons = [
    h("button", { type: "button", class: "primary", onclick: () => answer("approve") }, t("Approve")),
    h("button", { type: "button", onclick: () => answer("decline") }, t("Decline")),
  ];
  const choices = h("div", { class: "choices" }, buttons);
  async function answer(word) {
    for (const button of buttons) button.ariaDisabled = "true";
    let told = null;
    if (word === "approve" && area.value.trim() !== before) {
      told = await page.ask(`/context summary edit ${now} ${area.value.trim()}`);
      if (told?.data?.summary) [before, now] = [area.value.trim(), told.data.summary];
      else return refuse(told);
    }
    told = await page.run(`/context ${word} ${now}`, { isQuiet: true });
    if (!told?.data) return refuse(told);
    area.disabled = true;
    close.hidden = false;
    choices.remove();
    say.textContent = told.text.split("\n")[0].replaceAll(/[*`]/g, "");
    return undefined;
  }
  function refuse(told) {
    for (const button of buttons) button.ariaDisabled = null;
    say.textContent = told?.text ?? t("The bot can't be reached; try again in a moment.");
  }
  card.querySelector(".text blockquote")?.remove();
  card.querySelector(".text + .choices")?.remove();
  card.append(area, choices, say);
  const close = card.querySelector("header .icon");
  close.hidden = true; // it would neither approve nor decline
  card.dispatchEvent(new Event("load")); // it has grown: the end of the chat stays visible
}
