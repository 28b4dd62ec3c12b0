// The page: which session is shown, and its three columns.
import * as api from "./api.js";
import { Chat } from "./chat.js";
import { Composer } from "./composer.js";
import { Files } from "./files.js";
import { Outbox } from "./outbox.js";
import { Panel } from "./panel.js";
import { nameOf, Sessions } from "./sessions.js";
import { byId } from "./dom.js";

const chat = new Chat({
  changed: () => panel.refresh(),
  running: (is) => composer.running(is),
  states: () => panel.states,
  loaded: () => outbox.draw(),
  run: (line) => composer.command(line),
});
const panel = new Panel({
  run: (line) => api.command(session, line),
  tell: (text) => chat.notice(text),
  load: () => api.context(session),
  drawn: () => chat.mark(panel.states),
  files: () => files.section,
});
const composer = new Composer({
  say: (message) => outbox.add(message),
  tell: (text) => chat.notice(text),
  run: async (line) => {
    try {
      const reply = await api.command(session, line);
      if (reply.data?.is_current) await show(reply.data.number);
      chat.reply(line, reply);
      return true;
    } catch (error) {
      chat.notice(error.message);
      return false;
    } finally {
      panel.refresh();
      sessions.refresh().catch(console.warn); // it says so where something is asked for
    }
  },
  commands: async () => (await api.command(session, "/help")).data.commands,
});
const files = new Files((limits) => composer.limit(limits));
const outbox = new Outbox({
  session: () => session,
  expect: (message) => chat.expect(message),
  unsent: (message, state) => chat.unsent(message, state),
  sent: (message) => { chat.sent(message); sessions.refresh(); },
  known: (message) => { chat.remove(message); if (message.session === session) chat.load(session); },
  remove: (message) => chat.remove(message),
  edit: (message) => composer.restore(message),
});
const sessions = new Sessions({
  open,
  current: () => session,
  command: api.command,
  forget: (name) => outbox.forget(name),
  reveal: (turn) => chat.reveal(turn),
  tell: (text) => chat.notice(text),
});

let session = "";
let branch = 0;
let showing = Promise.resolve();

/** The session leads to another branch: what was said there is shown. */
function show(number) {
  if (number !== branch) showing = chat.load(session);
  branch = number;
  return showing;
}
let leave = () => {};

/** Show a session: what was said, then all that happens, without a gap between. */
async function open(name) {
  leave();
  session = name;
  branch = 0;
  history.replaceState(null, "", `#${encodeURIComponent(name)}`);
  close();
  chat.clear(name);
  composer.open(name);
  composer.close(name.includes("/")
    ? `This conversation goes on in ${nameOf(name.split("/")[0])}. You can read and steer it here; to answer, write there.`
    : "");
  leave = await load(name);
  sessions.mark();
  composer.focus();
}

async function load(name) {
  const place = await chat.load(name);
  panel.refresh();
  files.refresh(name);
  return api.follow(name, place, {
    snapshot: async ({ draft }) => {
      await chat.load(name); // what was missed is in the transcript
      if (draft) chat.draft(draft);
      panel.refresh();
    },
    draft: (draft) => chat.draft(draft),
    context: (usage) => { panel.usage(usage); panel.refresh(); },
    branch: async ({ branch: number }) => { await show(number); panel.refresh(); },
    notice: ({ text }) => chat.notice(text),
    done: async (answer) => {
      await chat.done(answer);
      panel.refresh();
      files.refresh(name);
      sessions.refresh();
    },
  }, (is) => {
    document.body.toggleAttribute("data-offline", !is);
    if (is) outbox.wake();
  });
}

// --- drawers on small screens, colours -------------------------------------------------------

function close() {
  for (const side of document.querySelectorAll(".side")) side.classList.remove("open");
}

for (const button of document.querySelectorAll("[data-opens]")) {
  button.addEventListener("click", () => {
    const side = byId(button.dataset.opens);
    side.classList.add("open");
    side.querySelector("button, input").focus();
  });
}
for (const button of document.querySelectorAll("[data-closes]")) {
  button.addEventListener("click", () => {
    close();
    document.querySelector(`[data-opens=${button.dataset.closes}]`).focus();
  });
}
document.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
document.querySelector("main").addEventListener("click", (event) => {
  if (!event.target.closest("[data-opens]")) close();
});

const themes = { auto: "same as the system", light: "light", dark: "dark" };
const theme = byId("theme");
theme.addEventListener("click", () => {
  const names = Object.keys(themes);
  const next = names[(names.indexOf(document.documentElement.dataset.theme) + 1) % names.length];
  document.documentElement.dataset.theme = next;
  localStorage.setItem("theme", next);
  theme.setAttribute("aria-label", `Colours: ${themes[next]}`);
});

addEventListener("hashchange", () => open(decodeURIComponent(location.hash.slice(1))));
const named = decodeURIComponent(location.hash.slice(1));
try {
  await open(named || (await sessions.refresh()).find(({ channel }) => channel === "web")?.name || Sessions.fresh());
  sessions.refresh();
  outbox.start();
} catch (error) { // why nobody is let in, for one
  chat.notice(error.message);
}
