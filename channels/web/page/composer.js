// Where one writes: messages, commands with completion, files.
import { byId, h } from "./dom.js";

export class Composer {
  #page;
  #text = byId("text");
  #options = byId("completions");
  #commands = null;
  #files = [];
  #chosen = -1;

  constructor(page) {
    this.#page = page;
    byId("composer").addEventListener("submit", (event) => { event.preventDefault(); this.#send(); });
    byId("stop").addEventListener("click", () => page.run("/stop"));
    byId("picker").addEventListener("change", (event) => this.#take(event.target));
    this.#text.addEventListener("input", () => { this.#grow(); this.#complete(); });
    this.#text.addEventListener("keydown", (event) => this.#key(event));
    this.#text.addEventListener("blur", () => setTimeout(() => this.#offer([]), 200));
    this.#text.addEventListener("paste", (event) => this.#take(event.clipboardData));
  }

  focus() {
    if (matchMedia("(hover: hover)").matches) this.#text.focus(); // a phone's keyboard hides the chat
  }

  running(is) {
    byId("stop").hidden = !is;
  }

  command(line) {
    return this.#page.run(line);
  }

  async #send() {
    const text = this.#text.value.trim();
    if (!text && !this.#files.length) return;
    const attachments = this.#files;
    this.#text.value = "";
    this.#files = [];
    this.#drawFiles();
    this.#grow();
    this.#offer([]);
    if (/^\/[a-z_]/i.test(text)) await this.#page.run(text);
    else await this.#page.say({ id: fresh(), text, attachments });
  }

  #grow() {
    this.#text.style.height = "auto";
    this.#text.style.height = `${Math.min(this.#text.scrollHeight, innerHeight / 3)}px`;
  }

  // --- files ---------------------------------------------------------------------------------

  async #take({ files }) {
    this.#files.push(...await Promise.all([...files].map(read)));
    this.#drawFiles();
    byId("picker").value = "";
  }

  #drawFiles() {
    byId("files").replaceChildren(...this.#files.map((file) => h("li", { class: "chip" }, file.name,
      h("button", { type: "button", class: "icon", "aria-label": `Leave ${file.name} out`, onclick: () => {
        this.#files = this.#files.filter((other) => other !== file);
        this.#drawFiles();
      } }, "✕"))));
  }

  // --- completion ----------------------------------------------------------------------------

  async #complete() {
    if (this.#text.value.startsWith("/")) this.#commands ??= await this.#page.commands().then(lines);
    const typed = this.#text.value; // as it is by now: more may have been typed meanwhile
    if (!/^\/\w*( \w*)?$/.test(typed)) return this.#offer([]);
    const fitting = this.#commands.filter(({ line }) => line.startsWith(typed.toLowerCase()) && line !== typed);
    const isSub = typed.includes(" ");
    return this.#offer(fitting.filter(({ line }) => line.includes(" ") === isSub).slice(0, 8));
  }

  #offer(found) {
    this.#chosen = -1;
    this.#options.replaceChildren(...found.map(({ line, summary }, index) =>
      h("li", { role: "option", id: `option-${index}`, "aria-selected": "false", "data-line": line,
        onmousedown: (event) => { event.preventDefault(); this.#fill(line); } },
      h("b", {}, line), " ", h("span", {}, summary))));
    this.#options.hidden = !found.length;
    byId("status").textContent = found.length ? `${found.length} commands fit; the arrow keys choose.` : "";
    this.#text.removeAttribute("aria-activedescendant");
  }

  #choose(step) {
    const items = [...this.#options.children];
    this.#chosen = (this.#chosen + step + items.length) % items.length;
    items.forEach((item, index) => item.setAttribute("aria-selected", String(index === this.#chosen)));
    this.#text.setAttribute("aria-activedescendant", items[this.#chosen].id);
  }

  #fill(line) {
    this.#text.value = `${line} `;
    this.#complete();
  }

  #key(event) {
    const isOpen = !this.#options.hidden;
    if (isOpen && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      this.#choose(event.key === "ArrowDown" ? 1 : this.#chosen < 0 ? 0 : -1);
    } else if (isOpen && (event.key === "Tab" || (event.key === "Enter" && this.#chosen >= 0))) {
      event.preventDefault();
      this.#fill(this.#options.children[Math.max(0, this.#chosen)].dataset.line);
    } else if (isOpen && event.key === "Escape") {
      this.#offer([]);
    } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.#send();
    }
  }
}

/** Each command and subcommand as a line that can be typed. */
const lines = (commands) => commands.flatMap(({ name, summary, subcommands }) => [
  { line: `/${name}`, summary },
  ...subcommands.map((sub) => ({ line: `/${name} ${sub.name}`, summary: sub.summary })),
]);

const fresh = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

function read(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve({ name: file.name || "file", media_type: file.type || "application/octet-stream", data: reader.result.split(",")[1] });
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
