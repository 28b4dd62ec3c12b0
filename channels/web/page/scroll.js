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
  #button = iconButton("end", t("To the end"), () => this.toEnd(), { id: "end", hidden: true });

  constructor(log) {
    this.#log = log;
    byId("notice").before(h("div", { class: "to-end" }, this.#button));
    log.addEventListener("scroll", () => {
      this.#scrolled();
      if (!this.isAtEnd && log.scrollTop < this.#end) this.leaveEnd(); // a person looks further up
    }, { passive: true });
  }

  /** Other turns are shown: where their end is, is known once it was scrolled to. */
  restart() {
    this.#end = 0;
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
