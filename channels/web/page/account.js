// Who is signed in: by a name or the owner's token, by a link that lets in once; and out again.
import { byId, h } from "./dom.js";
import { speak, t } from "./language.js";
import * as kept from "./kept.js";

const posted = (path, body) => fetch(path, {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(body),
});

/** Show fields to fill in; resolves to what was typed, by name, or null. */
function filled({ question, fields, action, words }) {
  const dialog = byId("dialog");
  const form = h("form", { method: "dialog" },
    h("h2", { id: "question" }, question),
    words && h("p", {}, words),
    fields.map(({ name, label, ...rest }) => h("label", { class: "field" }, label, h("input", { name, type: "text", ...rest }))),
    h("div", { class: "choices" },
      h("button", { type: "button", onclick: () => dialog.close("") }, t("Cancel")),
      h("button", { type: "submit", value: "yes", class: "primary" }, action)));
  dialog.replaceChildren(form);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      resolve(dialog.returnValue && form.isConnected ? Object.fromEntries(new FormData(form)) : null);
    }, { once: true });
  });
}

const reason = async (response) =>
  (await response.json().catch(() => ({}))).error?.message ?? t("Error {status}.", { status: response.status });

/** Ask who is there until the bot knows them; false where they give up. */
export async function signIn(words = "") {
  const said = await filled({
    question: t("Who are you?"),
    words,
    fields: [
      { name: "name", label: t("Name (empty for the owner's token)"), autocomplete: "username" },
      { name: "password", label: t("Password or token"), type: "password", autocomplete: "current-password" },
    ],
    action: t("Sign in"),
  });
  if (said === null) return false;
  const name = said.name.trim();
  const response = await posted("/api/login", name ? { name, password: said.password } : { token: said.password });
  return response.ok || signIn(await reason(response));
}

/** Come in by the link that was followed here, if it was one. */
export async function arrive() {
  const code = location.hash.match(/^#join=(.+)$/)?.[1];
  if (!code) return;
  history.replaceState(null, "", location.pathname);
  let words = t("Choose a password of at least 10 characters to sign in with elsewhere, or leave it empty.");
  for (;;) {
    const said = await filled({
      question: t("You are invited"),
      words,
      fields: [{ name: "password", label: t("Password"), type: "password", autocomplete: "new-password" }],
      action: t("Join"),
    });
    if (said === null) return;
    const response = await posted("/api/join", { code, password: said.password });
    if (response.ok) return;
    words = response.status === 400 ? t("A password has 10 to 200 characters.") : await reason(response);
  }
}

/** The button that says who is signed in, and signs out; true where it is somebody else than before. */
export async function showAccount() {
  const response = await fetch("/api/me").catch(() => null);
  if (!response?.ok) return false; // the bot is away, or asks first who is there
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
