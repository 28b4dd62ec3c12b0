// The live events of a session. A browser allows six connections to a host for all tabs together, so of
// the hidden tabs only the newest stay connected.
import { at, me } from "./api.js";
import { recall, remember } from "./storage.js";

const PLACES = 2; // connections of hidden tabs
const SOON = 10_000; // milliseconds until a hidden tab disconnects if there are no locks
const AGAIN = 2000; // milliseconds until a reconnect after the browser has given up

/** Follow a session from an event on, and return a function that stops it. Events are handled one after the
    other. The browser reconnects by itself after the last event; if it gives up, this function does. */
export function follow(session, place, handlers, connected) {
  let source = null;
  let last = place; // the id of the latest event
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
    await me().catch(() => null); // shows the sign-in form if the session has ended
    if (!isOver && source) open("");
  };
  const open = (after) => {
    source = new EventSource(at(session, "events", { as: "html", after }));
    for (const [kind, handle] of Object.entries(handlers)) {
      source.addEventListener(kind, (event) => {
        last = event.lastEventId;
        handled = handled.then(() => isOver || handle(JSON.parse(event.data))).catch(console.error);
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

/** Take one of the connections of hidden tabs; `lose` is called when another tab takes it. Return a function
    that releases it. Without locks (on an insecure page) it is lost after a while. */
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
