// The page: the shown session, and its three columns.
import { arrive, showAccount } from "./account.js";
import { addressed, addressOf, invitation } from "./address.js";
import * as api from "./api.js";
import { plain } from "./cards.js";
import { Chat } from "./chat.js";
import { Composer } from "./composer.js";
import { fillWelcome, offerAfterFailure } from "./connect.js";
import { changeModel, chooseModel, Connecting } from "./models.js";
import { Files } from "./files.js";
import { Outbox } from "./outbox.js";
import { follow } from "./events.js";
import { usual } from "./focus.js";
import { announce, drawnBrowser, keepPage, listen } from "./browser.js";
import { Panel } from "./panel.js";
import { People } from "./people.js";
import { Preferences } from "./preferences.js";
import { Remembered } from "./records.js";
import { nameOf, Sessions } from "./sessions.js";
import { Settings } from "./settings.js";
import { close, show as showSide, toggle } from "./sides.js";
import { recall, remember } from "./storage.js";
import { tabbed } from "./tabs.js";
import { byId, h, latest, nextTask } from "./dom.js";
import * as kept from "./kept.js";
import "./icons.js";
import { t, told } from "./language.js";

const OFF = "/private off";
const SHOWN = 1500; // milliseconds of a mark around the requested element
const RETRY = 3000; // milliseconds until an unreachable bot is tried again

await nextTask(); // the page is visible before all of it works
const chat = new Chat({
  changed: () => panel.refresh(),
  running: (is) => {
    isRunning = is;
    composer.running(is);
  },
  known: () => panel.known,
  marked: (turns) => chat.mark({ ...panel.known, turns }),
  loaded: () => { outbox.draw(); offerAfterFailure(connectModel); },
  offRecord,
  run: (line, how) => run(line, how),
  ask: (line) => ask(line),
  quote,
  write: () => usual()?.focus({ preventScroll: true }),
  chooseModel: () => chooseModel(session),
  pick: () => byId("model").click(),
  welcome: (steps) => fillWelcome(steps, { run: (line) => run(line), done: connected }),
});
const panel = new Panel({
  run: (line) => api.command(session, line),
  tell: (text) => chat.notice(text),
  load: () => api.context(session),
  drawn: () => {
    chat.mark(panel.known);
    settings.update(panel.known.settings);
    branches();
  },
  act: (line, how) => run(line, how),
  show: (turn) => { close(); return chat.reveal(turn, { isFocused: true }); },
});
const composer = new Composer({
  say: (message) => outbox.add(message),
  tell: (text) => chat.notice(text),
  run: (line) => run(line),
  stop: () => keys.stop(),
  commands: async () => (await api.command(session, "/help")).data,
});
const files = new Files((limits) => composer.limit(limits));
const settings = new Settings({
  run: async (line) => {
    try {
      tell(plain((await api.command(session, line)).text));
      panel.refresh();
      return (await api.context(session)).settings;
    } catch (error) {
      tell(error.message);
      return null;
    }
  },
});
const keys = {
  search: (words = "") => {
    showSide("sessions");
    byId("search").focus();
    if (!words) return;
    byId("search").value = words;
    byId("search").dispatchEvent(new Event("input"));
  },
  fresh: () => open(Sessions.next()),
  stop: () => run("/stop", { isQuiet: true }),
  step: (by) => sessions.step(by),
  toggle,
  settings: () => preferences.open(),
  write: () => {
    close(); // a drawer would cover it
    byId("text").focus();
  },
  version: async () => (await api.command(session, "/version").catch(() => null))?.data.version ?? "",
};
listen(keys);
await nextTask();
const people = new People({
  ask: (line) => api.command(session, line),
  tell: (text) => tell(text),
});
const connecting = new Connecting({ pick: () => byId("model").click(), connected: (model) => { byId("preferences").close(); connected(model); } });
const preferences = new Preferences({
  general: settings.parts("general"),
  models: [connecting.element, ...settings.parts("models")],
  context: settings.parts("context"),
  memory: settings.parts("memory"),
  people: [people.element, ...settings.parts("people")],
  browser: [drawnBrowser(keys)],
}, {
  opened: async (section) => {
    settings.draw();
    if (section === "people") people.refresh();
    if (section === "models") connecting.refresh();
    if (section === "browser" && !byId("version").textContent) byId("version").textContent = await keys.version();
  },
  searched: (words) => settings.search(words),
});
byId("gear").addEventListener("click", () => preferences.open());
byId("fresh").addEventListener("click", keys.fresh);

/** Show a message where the person is looking. */
const tell = (text) => (preferences.isOpen ? preferences.tell(text) : chat.notice(text));

const remembered = new Remembered((line, how) => run(line, how), (line) => ask(line));
byId("of-files").append(files.element);
byId("of-memory").append(remembered.element);
const showTab = tabbed(byId("tabs"), (panel) => { if (panel === "of-memory") remembered.refresh(); });
showTab("of-context");
const outbox = new Outbox({
  session: () => session,
  expect: (message) => chat.expect(message),
  unsent: (message, state) => chat.unsent(message, state),
  sent: (message) => { chat.sent(message); listed(); },
  known: (message) => { chat.remove(message); if (message.session === session) chat.load(session, { isSame: true }); },
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

/** Carry a command out; what it answers becomes a card, unless `isQuiet`. Returns the answer, or
    null where the bot can't be reached. */
async function run(line, { isQuiet = false, name = session } = {}) {
  const isContext = line.trim() === "/context";
  chat.notice(""); // it is about an earlier command
  const resumed = line.match(/^\s*\/resume\b(.*)/i);
  if (resumed) { // the list of conversations does the work of the terminal's command
    keys.search(resumed[1].trim());
    return null;
  }
  if (isContext) { // it shows everything in the answer
    showTab("of-context"); // first, since the side focuses the tab that is shown
    showSide("context");
    byId("context").animate([{ boxShadow: "inset 0 0 0 3px var(--accent)" }, {}], SHOWN); // it may have been open
  }
  try {
    const reply = await api.command(name, line);
    if (name !== session) chat.notice(plain(reply.text)); // it was left: a card here would act on this one
    else if (reply.data?.is_current) await show(reply.data.number);
    else if (reply.data?.loaded?.length || typeof reply.data?.private === "boolean") await chat.load(name);
    if (!isQuiet && !isContext && name === session) chat.reply(line, reply);
    return reply;
  } catch (error) {
    chat.notice(error.message);
    return null;
  } finally {
    panel.refresh();
    sessions.refresh().catch(console.warn); // errors are shown where they matter
  }
}

/** Return the answer of a command that changes nothing; null if the bot can't be reached. */
const ask = (line) => api.command(session, line).catch((error) => chat.notice(error.message) ?? null);

/** Put a text before the typed text, as a quote. */
function quote(text) {
  const area = byId("text");
  const lines = text.trim().split("\n").map((line) => `> ${line}`.trimEnd());
  area.value = [...lines, "", area.value].join("\n");
  area.dispatchEvent(new Event("input"));
  area.focus();
}

/** Show the form that connects a model. */
const connectModel = () => preferences.open("models");

/** Another model answers from now on. */
function connected(model) {
  for (const offer of document.querySelectorAll("#log .connects")) offer.remove();
  chat.notice(t("{model} answers from now on.", { model }));
  for (const steps of document.querySelectorAll(".first-steps")) steps.replaceChildren();
  panel.refresh();
  usual()?.focus({ preventScroll: true });
}

byId("model").addEventListener("click", async () => {
  const name = session;
  const line = await changeModel(name, connected).catch((error) => { chat.notice(error.message); });
  const reply = line && await run(line, { isQuiet: true, name });
  if (reply) tell(plain(reply.text));
});

const beginBranches = latest();

/** Show where other branches differ. */
async function branches() {
  const [name, isLatest] = [session, beginBranches()];
  const reply = await api.command(name, "/branches").catch(() => null);
  if (reply?.data?.branches && name === session && isLatest()) chat.branches(reply.data.branches);
}

let session = "";
let isRunning = false; // whether an answer is being written in it
let branch = 0;
let showing = Promise.resolve();

/** The session resolves to another branch: its messages are shown. */
function show(number) {
  if (number !== branch) showing = chat.load(session);
  branch = number;
  return showing;
}
let leave = () => {};

const left = new Map(); // sessions left while an answer was written, with the function that stops waiting for it
const MOST_LEFT = 2; // a browser has few connections

/** Wait for the answer of a session that was left. */
function waitFor(name) {
  if (left.size >= MOST_LEFT || left.has(name)) return;
  const stop = follow(name, "", {
    snapshot: async ({ draft }) => {
      if (draft) return;
      const last = (await api.messages(name, { limit: 1 })).messages.at(-1);
      if (last?.role === "assistant" && !last.calls.length) ready(last); // it was faster
    },
    done: (answer) => ready(answer),
  }, () => {});
  async function ready({ text }) {
    if (!left.has(name)) return;
    over();
    await listed(); // it may have had no title when it was left
    const title = sessions.titleOf(name);
    announce(title, text, new URL(addressOf(name), location.href).href);
    chat.notice(t("The answer in “{title}” is ready.", { title }));
  }
  function over() {
    stop();
    left.delete(name);
  }
  left.set(name, over);
}

/** Say that what is said here is off the record, or no more; this browser keeps it no longer than the page. */
async function offRecord(is) {
  const name = session;
  const typed = is && kept.draft(name);
  await kept.keepOff(name, is);
  if (typed) kept.keepDraft(name, typed);
  if (name !== session) return;
  document.body.toggleAttribute("data-private", is);
  const bar = byId("private");
  if (is === !bar.hidden) return;
  bar.hidden = !is;
  bar.replaceChildren(...(is ? [
    h("span", { role: "status" }, h("strong", {}, t("Off the record.")), " ", t("Messages are not saved.")),
    h("button", { type: "button", onclick: () => run(OFF) }, t("End and delete these messages"))] : []));
}

/** The address is that of another session: the browser's Back leads to the one that is left, and New to a text
    that was begun there and not sent. */
function leaveFor(name) {
  const isBegun = session && session !== name && kept.draft(session) && !byId("log").querySelector(".turn");
  if (isBegun) remember("unsent", session);
  else if (recall("unsent") === name) remember("unsent", null);
  const isLeft = addressed() === session && session !== name && (isBegun || sessions.knows(session));
  history[isLeft ? "pushState" : "replaceState"](null, "", addressOf(name));
}

const beginOpening = latest();

/** Show a session: its messages, then all following events, without a gap. */
async function open(name) {
  const isLatest = beginOpening();
  if (isRunning && session && name !== session) waitFor(session);
  left.get(name)?.();
  leave();
  leaveFor(name);
  if (session && name !== session) byId("dialog").close(); // its question was about the one that is left
  session = name;
  branch = 0;
  close();
  chat.clear(name);
  panel.restart();
  composer.open(name);
  composer.close(name.includes("/")
    ? t("This conversation takes place in {channel}. You can read it and change its context here; to answer, write there.", { channel: nameOf(name.split("/")[0]) })
    : "");
  remember("session", name);
  sessions.mark();
  composer.focus();
  await connect(name, isLatest);
}

/** Load a session; if the bot is unreachable, retry until it is back, or another one is opened. */
async function connect(name, isLatest) {
  try {
    const ended = await load(name);
    if (isLatest()) leave = ended;
    else ended();
  } catch (error) {
    if (!(error instanceof api.Unreachable) || !isLatest()) throw error;
    document.body.toggleAttribute("data-offline", true);
    outbox.draw();
    const timer = setTimeout(async () => {
      await connect(name, isLatest);
      if (document.body.hasAttribute("data-offline")) return;
      listed();
      showAccount();
    }, RETRY);
    leave = () => clearTimeout(timer);
  }
}

/** The list of sessions, as it is now; if the bot is unreachable, as it was. */
const listed = () => sessions.refresh().catch((error) => { console.warn(error.message); return []; });

async function load(name) {
  const written = async (draft) => {
    await outbox.arrived(draft.id);
    if (name === session) chat.draft(draft);
  };
  const place = await chat.load(name);
  panel.refresh();
  files.refresh(name);
  return follow(name, place, {
    snapshot: async ({ draft }) => {
      await chat.load(name); // missed events are in the transcript
      if (draft) await written(draft);
      panel.refresh();
    },
    draft: written,
    context: (usage) => { panel.usage(usage); panel.refresh(); },
    branch: async ({ branch: number }) => { await show(number); panel.refresh(); },
    private: async ({ private: is }) => { if (is !== document.body.hasAttribute("data-private")) await chat.load(name); panel.refresh(); listed(); },
    title: listed,
    deleted: ({ turns }) => { chat.forget(turns); panel.refresh(); listed(); },
    notice: ({ text }) => chat.notice(told(text)),
    closed: (over) => chat.settle(over),
    done: async (answer) => {
      await outbox.arrived(answer.id);
      if (name === session) await chat.done(answer);
      if (name !== session) return; // it was left, and is waited for
      offerAfterFailure(connectModel);
      panel.refresh();
      files.refresh(name);
      announce(byId("title").textContent, answer.text);
      listed();
    },
  }, (is) => {
    document.body.toggleAttribute("data-offline", !is);
    if (is) outbox.wake();
    if (is && byId("notice").textContent === api.AWAY) chat.notice("");
  });
}

/** Show why a session can't be shown, unless another one is shown by now. */
const refused = (name, { message }) => (name === session ? chat.refused(message) : chat.notice(message));

addEventListener("hashchange", () => {
  if (invitation()) return location.reload(); // a person signed in
  const name = addressed();
  return name && open(name).catch((error) => refused(name, error));
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // otherwise the address would name another conversation
  byId("text").focus();
});
await arrive();
await showAccount();
let first = addressed();
try {
  const newest = async () => (await listed()).find(({ channel }) => channel === "web")?.name;
  first ||= await newest() || recall("session") || Sessions.fresh();
  if (!session) await open(first).finally(() => { listed(); }); // unless a person was faster
  if (await showAccount()) composer.open(session);
  outbox.start();
} catch (error) { // for example, that no one is allowed to sign in
  refused(first, error);
  if (error.status === 404) outbox.start(); // only this session is missing
}
keepPage();
