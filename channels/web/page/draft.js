// The answer that is being written. What the server tells is only what is new of it, and only that
// is drawn: what was there before stays, with what somebody has selected or scrolled in it.
import { h } from "./dom.js";
import { partsOf } from "./text.js";
import { toolLine } from "./turns.js";

export class Draft {
  #parts = []; // {element, blocks: [[node]], seen}

  constructor(id) {
    this.id = id;
    this.element = h("div", { class: "writing", "aria-busy": "true" });
  }

  /** Go on by what the server tells: of a text `blocks` of HTML behind the first `keep`. */
  take(parts) {
    for (const part of this.#parts.splice(parts.length)) part.element.remove();
    parts.forEach((part, at) => {
      const isTool = Boolean(part.tool);
      if (this.#parts[at] && this.#parts[at].isTool !== isTool) this.#cut(at);
      if (isTool) this.#tool(at, part);
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
    this.#parts[at] = { element, seen, isTool: true };
  }

  #text(at, { keep, blocks }) {
    if (!this.#parts[at]) {
      this.#parts[at] = { element: h("div", { class: "text" }), blocks: [], isTool: false };
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
