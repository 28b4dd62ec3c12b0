// All requests of this page: each is one of /openapi.json.
import { signIn } from "./account.js";
import { t } from "./language.js";

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** No response: it is unknown whether the request arrived. */
export class Unreachable extends Error {}

export const AWAY = t("The bot can't be reached: it has stopped, or has as many connections as it can take. Try again in a moment.");

async function request(path, options = {}) {
  const before = signIns;
  const response = await fetch(path, options).catch(() => { throw new Unreachable(AWAY); });
  // A person who has signed in since this request was sent is not asked again.
  if (response.status === 401 && (before !== signIns || await signedIn())) return request(path, options);
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, body.error?.message ?? t("Error {status}.", { status: response.status }));
  return body;
}

const posted = (path, body, headers = {}) => request(path, {
  method: "POST",
  headers: { "Content-Type": "application/json", ...headers },
  body: JSON.stringify(body),
});

let signIns = 0;
let signingIn = null;

/** Ask who is signed in, once for all requests that need it; the result becomes a cookie. */
function signedIn() {
  signingIn ??= signIn().finally(() => {
    signIns += 1;
    signingIn = null;
  });
  return signingIn;
}

/** The address of a resource of a session; one of another channel is named "telegram/42". */
export function at(session, what, query = {}) {
  const [chat, channel] = session.split("/").reverse();
  const words = new URLSearchParams({ ...query, ...(channel && { channel }) }).toString();
  return `/api/sessions/${encodeURIComponent(chat)}/${what}${words && `?${words}`}`;
}

/** At most `limit` conversations of all channels, from a position in the list on; `open` is one that is always included. */
export const sessions = ({ words = "", open = "", after = "", limit }) =>
  request(`/api/sessions?${new URLSearchParams({ all: "true", q: words, open, after, limit })}`);
export const me = () => request("/api/me");
export const changePassword = (current, password) => posted("/api/password", { current, password });
export const connection = () => request("/api/connection");
export const modelServers = () => request("/api/connection/servers");
export const offeredModels = (form) => posted("/api/connection/models", form);
export const connectModel = (form) => posted("/api/connection", form);
export const files = (session) => request(at(session, "files"));
export const context = (session) => request(at(session, "context"));
export const command = (session, line) => {
  const [, name, text] = line.match(/^\/(\w+)\s*([^]*)$/);
  return posted(at(session, `commands/${name}`), { text });
};

/** A file of a session, by its path in the workspace. */
export async function file(session, path) {
  const response = await fetch(at(session, "file", { path })).catch(() => { throw new Unreachable(AWAY); });
  if (!response.ok) throw new Refused(response.status, t("The file can't be read now; try again in a moment."));
  return response.blob();
}

/** Read the newest turns, those before turn number `before`, or only one. */
export const messages = (session, { before, limit = 30 } = {}) =>
  request(at(session, "messages", { limit, ...(before && { before }) }));

/** Send a text, and wait for the answer. */
export const ask = (session, message) => posted(at(session, "messages"), message);

/** A file in the form that messages use. */
export function base64(blob, name = blob.name) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(new Error(t("{name} can't be read any more; add it again.", { name })));
    reader.readAsDataURL(blob);
  });
}

/** Returns once the message is on disk. It has an id, so that it may be sent again when nobody knows
    whether it arrived; a repeat may be answered already. */
export const say = (session, message) => posted(at(session, "messages"), message, { Prefer: "respond-async" });
