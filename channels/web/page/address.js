// The address of the page: #/NAME is a conversation, #join=CODE lets somebody in. No name of a
// conversation is an id of the page or another address, since no other begins with a slash.
const JOIN = "#join=";

/** The address of a conversation. */
export const addressOf = (name) => `#/${encodeURIComponent(name)}`;

/** The code by which somebody is let in; "" where the address has none. */
export const invitation = () => (location.hash.startsWith(JOIN) ? location.hash.slice(JOIN.length) : "");

/** The conversation that the address names, also as earlier releases wrote it (#NAME); "" where it names none. */
export function addressed() {
  if (invitation()) return "";
  try {
    return decodeURIComponent(location.hash.replace(/^#\/?/, ""));
  } catch {
    return "";
  }
}
