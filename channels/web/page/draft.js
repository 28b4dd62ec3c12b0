// The answer being written. The server sends only the new part, and only that is drawn: the existing part
// stays, with a person's selection or scroll position in it.
import { h } from "./dom.js";
import { t } from "./language.js";
import { partsOf } from "./text.js";
import { thoughts, toolLine } from "./turns.js";

const kindOf = ({ tool, thought }) => (tool ? "tool" : thought === undefined ? "text" : "thought");

export class Draft {
  #parts = []; // {kind, element, blocks: [[node]], seen}

  constructor(id, turn) {
    this.id = id;
    this.turn = turn;
    this.element = h("div", { class: "writing", "aria-busy": "true" });
  }

  /** Go on by what the server tells: of a text `blocks` of HTML behind the first `keep`, of a
      thought what follows its first `keep` characters. What is thought is open while it grows. */
  take(parts) {
    for (const part of this.#parts.splice(parts.length)) part.element.remove();
    parts.forEach((part, at) => {
      const kind = kindOf(part);
      if (this.#parts[at] && this.#parts[at].kind !== kind) this.#cut(at);
      if (kind === "tool") this.#tool(at, part);
      else if (kind === "thought") this.#thought(at, part, at === parts.length - 1);
      else this.#text(at, part);
    });
  }

  #cut(at) {
    for (const part of this.#parts.splice(at)) part.element.remove();
  }

  #tool(at, part) {
    const seen = JSON.stringify(part);
    if (this.#parts[at]?.seen === seen) return;
    const element = toolLine(part);
    if (this.#parts[at]) this.#parts[at].element.replaceWith(element);
    else this.element.append(element);
    this.#parts[at] = { kind: "tool", element, seen };
  }

  #thought(at, { keep, thought }, isGrowing) {
    if (!this.#parts[at]) {
      const element = thoughts("");
      element.open = true;
      this.#parts[at] = { kind: "thought", element, isGrowing: true };
      this.element.append(element);
    }
    const part = this.#parts[at];
    const box = part.element.querySelector("div");
    const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
    if (!box.firstChild) box.append("");
    const known = box.firstChild;
    if (thought || keep < known.length) known.replaceData(keep, known.length - keep, thought);
    if (isGrowing && isAtEnd) box.scrollTop = box.scrollHeight;
    if (part.isGrowing && !isGrowing) part.element.open = false; // the answer begins
    part.isGrowing = isGrowing;
    const words = isGrowing ? t("Thinking…") : t("Reasoning");
    if (part.element.firstChild.textContent !== words) part.element.firstChild.textContent = words;
  }

  #text(at, { keep, blocks }) {
    if (!this.#parts[at]) {
      this.#parts[at] = { kind: "text", element: h("div", { class: "text" }), blocks: [] };
      this.element.append(this.#parts[at].element);
    }
    const part = this.#parts[at];
    for (const node of part.blocks.splice(keep).flat()) node.remove();
    for (const html of blocks) {
      const nodes = partsOf(html);
      part.blocks.push(nodes);
      part.element.append(...nodes);
    }
  }
}
