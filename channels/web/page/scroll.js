// The place that the chat is scrolled to: its end while something is written, unless a person looks further up.
import { iconButton } from "./acts.js";
import { byId, h } from "./dom.js";
import { t } from "./language.js";

const NEAR = 80; // pixels from the end that still are the end

export class Scroll {
  isAtEnd = true; // as it was scrolled last: asking the log itself makes the browser lay it out at once
  #log;
  #frame = 0; // in which it is scrolled to its end
  #end = 0; // where that was last, in pixels
  #height = 0; // of what is seen of it
  #button = iconButton("end", t("To the end"), () => this.toEnd(), { id: "end", hidden: true });

  constructor(log) {
    this.#log = log;
    byId("notice").before(h("div", { class: "to-end" }, this.#button));
    log.addEventListener("scroll", () => {
      if (log.clientHeight !== this.#height) return; // the browser scrolls what becomes higher; nobody has left the end
      this.#scrolled();
      if (!this.isAtEnd && log.scrollTop < this.#end) this.leaveEnd(); // a person looks further up
    }, { passive: true });
    // The end stays in sight when the message box grows, the window is turned or a picture arrives.
    const stay = () => this.toEnd(this.isAtEnd);
    new ResizeObserver(() => {
      this.#height = log.clientHeight;
      stay();
    }).observe(log);
    log.addEventListener("load", stay, true);
  }

  /** Other turns are shown: where their end is, is known once it was scrolled to. */
  restart() {
    this.#end = 0;
  }

  /** Return the turn at the top of what is seen, and where it stands; null at the end, where nobody reads further up. */
  place() {
    const top = this.#log.getBoundingClientRect().top;
    const first = this.isAtEnd ? null : [...this.#log.querySelectorAll("[data-turn]")].find((one) => one.getBoundingClientRect().bottom > top);
    return first ? { turn: first.dataset.turn, at: first.getBoundingClientRect().top } : null;
  }

  /** Let a turn stand where it stood. */
  stay(element, at) {
    this.#log.scrollTop += element.getBoundingClientRect().top - at;
    this.leaveEnd();
  }

  /** Show the end, from the next frame on, unless something else is shown before. */
  toEnd(should = true) {
    if (!should) return;
    this.isAtEnd = true;
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      if (this.#log.querySelector(":scope > .greeting")) return; // it is read from its beginning
      this.#log.scrollTop = this.#log.scrollHeight;
      this.#end = this.#log.scrollTop;
      this.#log.querySelector(":focus-visible")?.scrollIntoView({ block: "nearest" }); // the keyboard is there
    });
  }

  /** Something else than the end was scrolled to. */
  leaveEnd() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.#scrolled();
  }

  #scrolled() {
    this.isAtEnd = this.#log.scrollHeight - this.#log.scrollTop - this.#log.clientHeight < NEAR;
    this.#button.hidden = this.isAtEnd;
  }
}
