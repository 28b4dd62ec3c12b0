// All requests of this page: each is one of /openapi.json.
import { asked } from "./dom.js";

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Nobody answered: whether the request arrived is not known. */
export class Unreachable extends Error {}

const AWAY = "The bot can't be reached: it has stopped, or has as many connections as it can take. Try again in a moment.";

async function request(path, options = {}) {
  const response = await fetch(path, options).catch(() => { throw new Unreachable(AWAY); });
  if (response.status === 401 && await signedIn()) return request(path, options);
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, body.error?.message ?? `Error ${response.status}.`);
  return body;
}

const posted = (path, body, headers = {}) => request(path, {
  method: "POST",
  headers: { "Content-Type": "application/json", ...headers },
  body: JSON.stringify(body),
});

let signingIn = null;

/** Ask for the token, once however many requests need it; it becomes a cookie. */
function signedIn() {
  signingIn ??= signIn().finally(() => { signingIn = null; });
  return signingIn;
}

async function signIn(question = "This bot is locked. What is its token?") {
  const token = await asked({ question, label: "Token", action: "Open", secret: true });
  if (token === null) return false;
  const response = await fetch("/api/login", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token }),
  });
  if (response.ok) return true;
  const body = await response.json().catch(() => ({}));
  return signIn(response.status === 401 ? "That is not the token. Try again?"
    : body.error?.message ?? `Error ${response.status}. Try again?`);
}

const root = (session) => `/api/sessions/${encodeURIComponent(session)}`;

export const sessions = (words) => request(`/api/sessions?q=${encodeURIComponent(words)}`);
export const files = (session) => request(`${root(session)}/files`);
export const context = (session) => request(`${root(session)}/context`);
export const command = (session, line) => {
  const [, name, text] = line.match(/^\/(\w+)\s*([^]*)$/);
  return posted(`${root(session)}/commands/${name}`, { text });
};

/** What was said: the newest turns, those before turn number `before`, or only one. */
export function messages(session, { before, limit = 30 } = {}) {
  const query = new URLSearchParams({ limit, ...(before && { before }) });
  return request(`${root(session)}/messages?${query}`);
}

/** Returns once the message is on disk. It has an id, so that it may be sent again when nobody knows
    whether it arrived; a repeat may be answered already. */
export const say = (session, message) => posted(`${root(session)}/messages`, message, { Prefer: "respond-async" });

/** Follow a session from an event on; returns what ends it. Events are handled one after the other.
    The browser comes again by itself after the last event that it saw; where it gives up (the bot
    was away for long) we do. */
export function follow(session, place, handlers, connected) {
  let source;
  let timer;
  let handled = Promise.resolve();
  const open = (after) => {
    source = new EventSource(`${root(session)}/events?as=html&after=${encodeURIComponent(after)}`);
    for (const [kind, handle] of Object.entries(handlers)) {
      source.addEventListener(kind, (event) => {
        handled = handled.then(() => handle(JSON.parse(event.data))).catch(console.error);
      });
    }
    source.onopen = () => connected(true);
    source.onerror = () => {
      connected(false);
      if (source.readyState === EventSource.CLOSED) timer = setTimeout(() => open(""), 2000);
    };
  };
  open(place);
  return () => { clearTimeout(timer); source.close(); };
}
