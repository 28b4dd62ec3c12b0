// The page's own words in the language of the browser; what has no translation is English.
// What people and the bot say is never looked up: `t` is for the page's words alone.
const isEnglish = (navigator.language || "en").toLowerCase().startsWith("en");
const none = { language: "en", words: {} };
const { language, words } = isEnglish ? none
  : await fetch("/words.json").then((response) => response.json()).catch(() => none);

/** A text of the page, with what stands in its places: t("{name}: sign out", { name }). */
export function t(text, values = {}) {
  return (words[text] ?? text).replace(/\{(\w+)\}/g, (place, name) => values[name] ?? place);
}

/** Translate what stands in the page's HTML, before anybody's words are in it. */
function translate(root) {
  for (const element of root.querySelectorAll("*")) {
    for (const name of ["aria-label", "placeholder"]) {
      if (element.hasAttribute(name)) element.setAttribute(name, t(element.getAttribute(name)));
    }
    for (const node of element.childNodes) {
      const text = node.nodeType === Node.TEXT_NODE && node.data.trim().replace(/\s+/g, " ");
      if (text && words[text]) node.data = node.data.replace(node.data.trim(), words[text]);
    }
  }
}

if (language !== "en") {
  document.documentElement.lang = language;
  translate(document.body);
}
