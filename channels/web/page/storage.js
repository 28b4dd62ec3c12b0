// The memory of this browser from one visit to the next. Where it keeps nothing, or has no room left,
// the page remembers it as long as it is open.
const here = new Map();

export function recall(name) {
  if (here.has(name)) return here.get(name);
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** Store a text; null deletes it. */
export function remember(name, text) {
  here.delete(name);
  try {
    if (text === null) localStorage.removeItem(name);
    else localStorage.setItem(name, text);
  } catch {
    here.set(name, text);
  }
}

/** Return whether the next visit will find it. */
export const keeps = (name) => !here.has(name);

/** The names of all stored texts. */
export function remembered() {
  try {
    return [...here.keys(), ...Object.keys(localStorage)];
  } catch {
    return [...here.keys()];
  }
}
