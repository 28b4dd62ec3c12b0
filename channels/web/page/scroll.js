// The scroll position of the chat: its end while text is being written, unless a person reads further up.
import { iconButton } from "./acts.js";
import { byId, h } from "./dom.js";
import { t } from "./language.js";

const NEAR = 80; // pixels from the end that still count as the end

export class Scroll {
  isAtEnd = true; // as of the last scroll: reading it from the log makes the browser lay it out at once
  #log;
  #frame = 0; // in which it is scrolled to its end
  #end = 0; // its last position, in pixels
  #height = 0; // of the visible part
  #button = iconButton("end", t("To the end"), () => this.toEnd(), { id: "end", hidden: true });

  constructor(log) {
    this.#log = log;
    byId("notice").before(this.#button);
    log.addEventListener("scroll", () => {
      if (log.clientHeight !== this.#height) return; // the browser scrolls what becomes higher; nobody has left the end
      this.#scrolled();
      if (!this.isAtEnd && log.scrollTop < this.#end) this.leaveEnd(); // a person reads further up
    }, { passive: true });
    // The end stays visible when the message box grows, the window is turned or a picture arrives.
    new ResizeObserver(() => {
      this.#height = log.clientHeight;
      this.follow();
    }).observe(log);
    log.addEventListener("load", () => this.follow(), true);
  }

  /** Other turns are shown: the position of their end is known after scrolling to it. */
  restart() {
    this.#end = 0;
  }

  /** Return the turn at the top of the visible part, and its position; null at the end. */
  place() {
    const top = this.#log.getBoundingClientRect().top;
    const first = this.isAtEnd ? null : [...this.#log.querySelectorAll("[data-turn]")].find((one) => one.getBoundingClientRect().bottom > top);
    return first ? { turn: first.dataset.turn, at: first.getBoundingClientRect().top } : null;
  }

  /** Restore a turn's position. */
  stay(element, at) {
    this.#log.scrollTop += element.getBoundingClientRect().top - at;
    this.leaveEnd();
  }

  /** Show the end of a log that has changed, if its end was shown until now. */
  follow() {
    if (this.isAtEnd) this.toEnd();
  }

  /** Show the end, from the next frame on, unless something else is shown before. */
  toEnd() {
    this.isAtEnd = true;
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      if (this.#log.querySelector(":scope > .greeting")) return; // it is read from its beginning
      this.#log.scrollTop = this.#log.scrollHeight;
      this.#end = this.#log.scrollTop;
      this.#log.querySelector(":focus-visible")?.scrollIntoView({ block: "nearest" }); // the keyboard is there
    });
  }

  /** Another position than the end was scrolled to. */
  leaveEnd() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.#scrolled();
  }

  /** Return whether the log shows the beginning of a card at its top: no button covers that. */
  #isReadFromItsBeginning(last) {
    const [{ top }, begin] = [this.#log.getBoundingClientRect(), last?.matches(".card") && last.getBoundingClientRect().top];
    return typeof begin === "number" && begin >= top && begin < top + this.#height / 3;
  }

  #scrolled() {
    this.isAtEnd = this.#log.scrollHeight - this.#log.scrollTop - this.#log.clientHeight < NEAR;
    this.#button.hidden = this.isAtEnd || this.#isReadFromItsBeginning(this.#log.lastElementChild);
  }
}
