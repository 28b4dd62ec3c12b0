// The address of the page: #/NAME is a conversation, #join=CODE an invitation. The slash keeps names of
// conversations apart from ids of the page.
const JOIN = "#join=";

/** Return the address of a conversation. */
export const addressOf = (name) => `#/${encodeURIComponent(name)}`;

/** Return the code of the invitation, or "". */
export const invitation = () => (location.hash.startsWith(JOIN) ? location.hash.slice(JOIN.length) : "");

/** Return the name of the address's conversation, also in the form of earlier releases (#NAME), or "". */
export function addressed() {
  if (invitation()) return "";
  try {
    return decodeURIComponent(location.hash.replace(/^#\/?/, ""));
  } catch {
    return "";
  }
}
