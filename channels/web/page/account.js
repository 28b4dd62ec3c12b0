// Signing in, by a name, the owner's token or a link that works once; and signing out.
import { invitation } from "./address.js";
import { byId, h } from "./dom.js";
import { speak, t } from "./language.js";
import * as kept from "./kept.js";

const posted = (path, body) => fetch(path, {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(body),
});

/** Show input fields, on a page of their own; resolves to the typed values, by name, or null if the
    person chooses `other`, if there is one. */
function filled({ question, fields, action, words, problem, other }) {
  const dialog = byId("dialog");
  const form = h("form", { method: "dialog" },
    h("p", { class: "brand" }, h("img", { src: "/page/icon.svg", alt: "", width: 32, height: 32 }), " Parley"),
    h("h2", { id: "question" }, question),
    problem && h("p", { class: "wrong", role: "alert" }, problem),
    fields.map(({ name, label, ...rest }) => h("label", { class: "field" }, label, h("input", { name, type: "text", ...rest }))),
    h("p", { class: "help" }, words),
    h("div", { class: "choices" },
      other && h("button", { type: "button", onclick: () => dialog.close("") }, other),
      h("button", { type: "submit", value: "yes", class: "primary" }, action)));
  const stay = (event) => { if (event.key === "Escape") event.preventDefault(); }; // behind it is nothing to go back to
  dialog.addEventListener("keydown", stay);
  dialog.classList.add("arriving");
  dialog.replaceChildren(form);
  dialog.returnValue = "";
  if (!dialog.open) dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.removeEventListener("keydown", stay);
      dialog.classList.remove("arriving");
      resolve(dialog.returnValue && form.isConnected ? Object.fromEntries(new FormData(form)) : null);
    }, { once: true });
  });
}

const reason = async (response) =>
  (await response.json().catch(() => ({}))).error?.message ?? t("Error {status}.", { status: response.status });

/** Return the sentence for a sign-in request that is refused or not delivered; "" if it is accepted. */
async function refusal(path, body) {
  const response = await posted(path, body).catch(() => null);
  if (!response) return t("The bot can't be reached; try again in a moment.");
  if (response.ok) return "";
  return response.status === 400 && path === "/api/join" ? t("A password has 10 to 200 characters.") : reason(response);
}

/** Ask who is signed in until the bot is reachable. */
export async function signIn(problem = "", before = "") {
  const said = await filled({
    question: t("Sign in"),
    problem,
    words: t("No account yet? Ask the owner of this bot for an invitation link."),
    fields: [
      { name: "name", value: before, label: t("Name (not needed with the access key)"), autocomplete: "username" },
      { name: "password", label: t("Password or access key"), type: "password", autocomplete: "current-password", autofocus: problem !== "" },
    ],
    action: t("Sign in"),
  });
  if (said === null) return signIn();
  const name = said.name.trim();
  const refused = await refusal("/api/login", name ? { name, password: said.password } : { token: said.password });
  return refused ? signIn(refused, name) : true;
}

/** Sign in by the link that was followed here, if it was one. */
export async function arrive() {
  const code = invitation();
  if (!code) return;
  history.replaceState(null, "", location.pathname);
  for (let problem = "";;) {
    const said = await filled({
      question: t("You are invited to this bot"),
      problem,
      words: t("A password (at least 10 characters) lets you sign in on other devices too. Without one, you are signed in only in this browser."),
      other: t("Sign in instead"),
      fields: [{ name: "password", label: t("Password"), type: "password", autocomplete: "new-password" }],
      action: t("Join"),
    });
    if (said === null) return;
    problem = await refusal("/api/join", { code, password: said.password });
    if (!problem) return;
  }
}

/** The button that shows who is signed in, and signs out; true if it is another person than before. */
export async function showAccount() {
  const response = await fetch("/api/me").catch(() => null);
  if (!response?.ok) return false; // the bot is unreachable, or requires a sign-in first
  const me = await response.json();
  speak(me.language);
  const button = byId("account");
  button.hidden = !me.is_signed_in;
  button.textContent = t("{name}: sign out", { name: me.user || t("Owner") });
  button.onclick = async () => {
    await posted("/api/logout", {});
    await kept.clear();
    location.assign(location.pathname);
  };
  return kept.belongTo(me.user ?? "");
}
