// The events of a session, as they happen. A browser has six connections to a host, for all of its tabs
// together: of the tabs that nobody sees, only the newest go on listening.
import { at, me } from "./api.js";
import { recall, remember } from "./storage.js";

const PLACES = 2; // for what is listened to in tabs that nobody sees
const SOON = 10_000; // milliseconds, after which nobody comes back at once
const AGAIN = 2000; // milliseconds until the bot is asked again, where the browser has given up

/** Follow a session from an event on; returns what ends it. Events are handled one after the other.
    The browser comes again by itself after the last event that it saw; where it gives up (the bot
    was away for long) we do. */
export function follow(session, place, handlers, connected) {
  let source = null;
  let last = place; // the event that was heard last
  let timer;
  let leave = () => {};
  let handled = Promise.resolve();
  let isOver = false;
  const shut = () => {
    clearTimeout(timer);
    source?.close();
    source = null;
  };
  const comeAgain = async () => {
    await me().catch(() => null); // who was signed out elsewhere is asked who is there
    if (!isOver && source) open("");
  };
  const open = (after) => {
    source = new EventSource(at(session, "events", { as: "html", after }));
    for (const [kind, handle] of Object.entries(handlers)) {
      source.addEventListener(kind, (event) => {
        last = event.lastEventId;
        handled = handled.then(() => handle(JSON.parse(event.data))).catch(console.error);
      });
    }
    source.onopen = () => connected(true);
    source.onerror = () => {
      connected(false);
      if (source?.readyState === EventSource.CLOSED) timer = setTimeout(comeAgain, AGAIN);
    };
  };
  const look = () => {
    leave();
    leave = document.hidden ? takePlace(shut) : () => {};
    if (!document.hidden && !source) open(last);
  };
  open(place);
  look();
  document.addEventListener("visibilitychange", look);
  return () => {
    isOver = true;
    document.removeEventListener("visibilitychange", look);
    leave();
    shut();
  };
}

/** Take a place among those who listen while nobody sees them; `lose` is called when another needs it. Returns
    what gives it back. Where a browser has no locks, since the page is not secure, no place is had for long. */
function takePlace(lose) {
  if (!navigator.locks) {
    const timer = setTimeout(lose, SOON);
    return () => clearTimeout(timer);
  }
  const number = (Number(recall("listening")) + 1) % PLACES;
  remember("listening", String(number));
  let isLeft = false;
  let giveBack = () => {};
  navigator.locks.request(`listening-${number}`, { steal: true }, () => isLeft || new Promise((resolve) => { giveBack = resolve; }))
    .catch(() => isLeft || lose());
  return () => {
    isLeft = true;
    giveBack();
  };
}
