// The size of the context in each turn as a line, with marks where it was reduced.
import { amount, h } from "./dom.js";
import { t } from "./language.js";

const [WIDTH, HEIGHT] = [300, 36];
const SMALLER = ["compact", "squeeze", "clip", "stub", "fold", "clear", "new"]; // kinds of changes that are marked
const SPACE = "http://www.w3.org/2000/svg";

export class Sparkline {
  #points = [];
  #label = h("span");
  #value = h("span", { class: "tokens" });
  #picture = h("div", { class: "sparkline", role: "img" });
  element = h("figure", { class: "sizes", hidden: true }, h("figcaption", {}, this.#label, this.#value), this.#picture);

  constructor() {
    this.#picture.addEventListener("pointermove", ({ clientX }) => {
      const { left, width } = this.#picture.getBoundingClientRect();
      const turn = this.#turnAt((clientX - left) / width);
      const [number, size] = this.#points.reduce((best, one) => (Math.abs(one[0] - turn) < Math.abs(best[0] - turn) ? one : best));
      this.#value.textContent = number === this.#points.at(-1)[0] ? t("next request: {n}", { n: amount(size) }) : `t${number}: ${amount(size)}`;
    });
    this.#picture.addEventListener("pointerleave", () => this.#sum());
  }

  /** Draw [turn, tokens] pairs, the last of which is the next request; `events` are all changes of the context. */
  draw(points = [], events = []) {
    this.#points = points;
    this.element.hidden = points.length < 3;
    if (points.length < 3) return;
    const most = Math.max(...points.map(([, size]) => size));
    const line = points.map(([turn, size]) => `${(this.#shareOf(turn) * WIDTH).toFixed(1)} ${(HEIGHT - (size / most) * (HEIGHT - 2)).toFixed(1)}`);
    const cuts = events.filter(({ kind, undone }) => !undone && SMALLER.includes(kind));
    const [low, high] = [points[0][0], points.at(-2)[0]];
    const marks = cuts.filter(({ at_turn: at }) => Number(at.slice(1)) >= low && Number(at.slice(1)) <= high).map(({ at_turn: at }) => {
      const mark = h("span", { class: "cut-at" });
      mark.style.left = `clamp(4px, ${this.#shareOf(Number(at.slice(1))) * 100}%, 100% - 5px)`;
      return mark;
    });
    this.#label.textContent = marks.length ? t("Size at each turn (triangles: reduced)") : t("Size at each turn");
    this.#picture.replaceChildren(drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      drawn("path", { class: "area", d: `M0 ${HEIGHT} L${line.join(" L")} L${WIDTH} ${HEIGHT} Z` }),
      drawn("path", { class: "edge", d: `M${line.join(" L")}` })), ...marks);
    const said = t("Context size from t{low} to t{high}: {first} tokens at first, {last} at the end, {most} at its largest.", { low, high, first: amount(points[0][1]), last: amount(points.at(-1)[1]), most: amount(most) });
    const where = [...new Set(cuts.map(({ at_turn: at }) => at))];
    this.#picture.setAttribute("aria-label", where.length ? `${said} ${t("Made smaller at {turns}.", { turns: where.slice(-20).join(", ") })}` : said);
    this.#sum();
  }

  #sum() {
    const sizes = this.#points.map(([, size]) => size);
    this.#value.textContent = t("now {n}, largest {most}", { n: amount(sizes.at(-1)), most: amount(Math.max(...sizes)) });
  }

  #shareOf(turn) {
    const [low, high] = [this.#points[0][0], this.#points.at(-1)[0]];
    return (turn - low) / (high - low);
  }

  #turnAt(share) {
    const [low, high] = [this.#points[0][0], this.#points.at(-1)[0]];
    return low + share * (high - low);
  }
}

function drawn(tag, properties, ...children) {
  const element = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
