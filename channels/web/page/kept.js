// The store of what was typed, in this browser, until the bot has it: drafts, their files, and messages
// on their way. Texts are written at once, so that no closing of a tab is faster; files are too
// large for that place.
import { recall, remember, remembered } from "./storage.js";

const memory = { files: new Map(), outbox: new Map() }; // if a browser has no database

const opened = new Promise((resolve) => {
  try {
    const request = indexedDB.open("parley", 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("files");
      request.result.createObjectStore("outbox");
    };
    request.onsuccess = () => resolve(request.result);
    request.onerror = request.onblocked = () => resolve(null);
  } catch {
    resolve(null);
  }
});

/** Do one thing with one of the stores; resolves when it is on disk. */
async function within(name, mode, work, instead) {
  const database = await opened;
  if (!database) return instead(memory[name]);
  return new Promise((resolve, reject) => {
    const transaction = database.transaction(name, mode);
    const request = work(transaction.objectStore(name));
    transaction.oncomplete = () => resolve(request.result);
    transaction.onerror = transaction.onabort = () => reject(transaction.error);
  });
}

const put = async (name, key, value) => (value.private || off.has(key) ? void memory[name].set(key, value) : written(name, key, value));
const written = (name, key, value) => within(name, "readwrite", (store) => store.put(value, key), (map) => map.set(key, value))
  .catch(() => { memory[name].set(key, value); }); // the disk may be full: then for the life of the tab
const drop = (name, key) => {
  memory[name].delete(key);
  return within(name, "readwrite", (store) => store.delete(key), () => {}).catch(() => {});
};
const everything = async (name) => {
  const found = await within(name, "readonly", (store) => store.getAll(), () => []).catch(() => []);
  return [...found, ...memory[name].values()];
};

const place = (session) => `draft/${session}`;

// A private conversation is kept as long as this page is open, and in nothing that outlives it. The
// names of these sessions are remembered, so that it is known before the bot has answered.
const off = new Set(JSON.parse(recall("private") ?? "[]"));
const drafts = new Map();

export const isOff = (session) => off.has(session);

/** A session is off the record from now on, or on it again; text typed there is deleted. */
export async function keepOff(session, is) {
  if (is === off.has(session)) return;
  drafts.delete(session);
  if (is) await forget(session);
  for (const map of is ? [] : Object.values(memory)) map.delete(session);
  off[is ? "add" : "delete"](session);
  remember("private", off.size ? JSON.stringify([...off]) : null);
}

/** The unsent text of a session. */
export const draft = (session) => (off.has(session) ? drafts.get(session) : recall(place(session))) ?? "";

export const keepDraft = (session, text) => (off.has(session) ? void drafts.set(session, text) : remember(place(session), text || null));

/** The attached files of a session. */
export async function files(session) {
  const found = await within("files", "readonly", (store) => store.get(session), () => undefined).catch(() => undefined);
  return found ?? memory.files.get(session) ?? [];
}

export const keepFiles = (session, list) => (list.length ? put("files", session, list) : drop("files", session));

/** Messages that the bot has not confirmed, in the order they were written. */
export const outbox = async () => (await everything("outbox")).sort((one, other) => one.at - other.at);
export const keepMessage = (message) => put("outbox", message.id, message);
export const dropMessage = (id) => drop("outbox", id);

/** Delete text typed by another person; true if there was any. */
export async function belongTo(user) {
  const before = recall("user");
  remember("user", user);
  if (before === null || before === user) return false;
  await clear();
  return true;
}

/** Delete everything stored: a person has signed out. */
export async function clear() {
  for (const name of remembered()) if (["session", "commands", "private", "unsent"].includes(name) || name.startsWith("draft/")) remember(name, null);
  for (const name of ["files", "outbox"]) {
    memory[name].clear();
    await within(name, "readwrite", (store) => store.clear(), () => {}).catch(() => {});
  }
}

/** Delete the data of a deleted session. */
export async function forget(session) {
  keepDraft(session, "");
  await keepFiles(session, []);
  for (const message of await outbox()) if (message.session === session) await dropMessage(message.id);
}
