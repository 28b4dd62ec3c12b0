// The message box: messages, commands with completion, files. Typed text is kept as a draft.
import { byId, h, isPhone, phone } from "./dom.js";
import { counted, fitting } from "./commands.js";
import { hasKeyboard } from "./focus.js";
import { icon } from "./icons.js";
import { bytes, complaint, preview } from "./files.js";
import * as kept from "./kept.js";
import { t } from "./language.js";
import { withOptions } from "./text.js";

const LONG = 10_000; // characters, which always fill the message box
const SECOND = 1000; // milliseconds
const COMPOSED = 229; // the key that ended a composition, in Safari, where it is already over

export class Composer {
  #page;
  #text = byId("text");
  #button = byId("send");
  #options = byId("completions");
  #session = "";
  #commands = null;
  #asked = null; // for these
  #files = []; // {name, media_type, blob}
  #chosen = -1;
  #isRunning = false;
  #limits = null;
  #recorder = null; // while recording
  #clock = 0; // that shows its duration
  #isEarly = false; // whether to send as soon as a session is open

  constructor(page) {
    this.#page = page;
    byId("composer").addEventListener("submit", (event) => { event.preventDefault(); this.#press(); });
    byId("picker").addEventListener("change", (event) => this.take(event.target.files));
    byId("record").hidden = !(navigator.mediaDevices && window.MediaRecorder); // an insecure page has no microphone
    this.#drawRecording();
    byId("record").addEventListener("click", () => (this.#recorder ? this.#recorder.stop() : this.#record()));
    this.#fit();
    phone.addEventListener("change", () => this.#fit());
    this.#text.addEventListener("input", () => { this.#changed(); this.#complete(); });
    this.#text.addEventListener("keydown", (event) => this.#key(event));
    this.#text.addEventListener("blur", () => setTimeout(() => document.activeElement === this.#text || this.#offer([]), 200));
    this.#options.addEventListener("mousedown", (event) => event.preventDefault()); // or its scroll bar would close it
    this.#text.addEventListener("paste", (event) => this.#paste(event));
    this.#catchDrops();
  }

  /** Focus the message box; where the keyboard would hide the chat, only on request. */
  focus() {
    if (hasKeyboard()) this.#text.focus();
  }

  running(is) {
    this.#isRunning = is;
    this.#drawButton();
  }

  /** Another session is shown: its draft precedes the text typed while none was open. */
  async open(session) {
    const [typed, put] = this.#session ? ["", []] : [this.#text.value, this.#files];
    const isSent = this.#isEarly && !this.#isEmpty;
    [this.#session, this.#isEarly] = [session, false];
    kept.keepDraft("", "");
    if (isSent) this.#send();
    const draft = [kept.draft(session), isSent ? "" : typed].filter(Boolean).join("\n\n");
    this.#put(draft, isSent ? [] : put);
    if (typed && !isSent) kept.keepDraft(session, draft);
    const files = await kept.files(session);
    if (session !== this.#session || !files.length) return;
    this.#files = [...files, ...this.#files];
    this.#drawFiles();
  }

  /** Enable typing, or show why it is impossible. */
  close(why) {
    byId("composer").hidden = Boolean(why);
    byId("elsewhere").hidden = !why;
    byId("elsewhere").textContent = why;
  }

  /** A message is returned for editing; the text already typed stays below it. */
  async restore({ session, text, files }) {
    const others = session === this.#session ? this.#files : await kept.files(session);
    const now = session === this.#session ? this.#text.value : kept.draft(session);
    const whole = [text, now].filter(Boolean).join("\n\n");
    const all = [...files, ...others];
    kept.keepDraft(session, whole);
    if (session === this.#session) {
      this.#put(whole, all);
      this.#text.focus();
    }
    await kept.keepFiles(session, all);
  }

  #put(text, files) {
    this.#text.value = text;
    this.#files = files;
    this.#drawFiles();
    this.#grow();
    this.#offer([]);
    this.#drawButton();
  }

  #changed() {
    kept.keepDraft(this.#session, this.#text.value);
    this.#grow();
    this.#drawButton();
  }

  // --- sending -------------------------------------------------------------------------------

  get #isEmpty() {
    return !this.#text.value.trim() && !this.#files.length;
  }

  /** The button: it stops an answer, unless there is a message to send. */
  #drawButton() {
    const stops = this.#isRunning && this.#isEmpty;
    this.#button.replaceChildren(icon(stops ? "stop" : "send"));
    this.#button.setAttribute("aria-label", stops ? t("Stop the answer") : t("Send"));
    this.#button.classList.toggle("stops", stops);
  }

  #press() {
    return this.#isRunning && this.#isEmpty ? this.#page.stop() : this.#send();
  }

  async #send() {
    if (this.#isEmpty) return;
    if (!this.#session) { // it is sent when one is open
      this.#isEarly = true;
      return;
    }
    const [session, text, files] = [this.#session, this.#text.value.trim(), this.#files];
    this.#put("", []);
    if (/^\/[a-z_]/i.test(text) && !files.length) {
      if (await this.#page.run(text)) {
        counted(text);
        this.#sent(session, text);
      } else await this.restore({ session, text, files });
      return;
    }
    await this.#page.say({ id: fresh(), session, text, files, at: Date.now(), why: "", private: kept.isOff(session) });
    await this.#sent(session, text);
  }

  /** It is stored elsewhere now; text typed meanwhile is the draft. */
  #sent(session, text) {
    if (session === this.#session) kept.keepDraft(session, this.#text.value);
    else if (kept.draft(session).trim() === text) kept.keepDraft(session, "");
    return kept.keepFiles(session, session === this.#session ? this.#files : []);
  }

  /** A phone's keyboard has only Enter for a new line, and its field has little space. */
  #fit() {
    this.#text.placeholder = isPhone() ? t("Message") : t("Message, or / for commands");
    this.#text.enterKeyHint = isPhone() ? "enter" : "send";
  }

  #grow() {
    if (this.#text.value.length > LONG) { // measuring it at each key takes longer than typing
      this.#text.style.height = "33vh";
      return;
    }
    this.#text.style.height = "auto";
    this.#text.style.height = `${Math.min(this.#text.scrollHeight, innerHeight / 3)}px`;
  }

  // --- files ---------------------------------------------------------------------------------

  /** Set the maximum size of a message's files; shown where files are added. */
  limit(limits) {
    this.#limits = limits;
    const words = t("Up to {files} files, {bytes} together", { files: limits.files, bytes: bytes(limits.bytes) });
    byId("picker").title = words;
    byId("drop").dataset.limit = words;
  }

  /** Record a voice message, which is attached when it is done. */
  async #record() {
    const stream = await navigator.mediaDevices.getUserMedia({ audio: true }).catch(() => null);
    if (!stream) return this.#page.tell(t("This page may not use a microphone; allow it in the browser's settings."));
    const pieces = [];
    this.#recorder = new MediaRecorder(stream);
    this.#recorder.addEventListener("dataavailable", ({ data }) => pieces.push(data));
    this.#recorder.addEventListener("stop", () => {
      for (const track of stream.getTracks()) track.stop();
      const type = (this.#recorder.mimeType || "audio/webm").split(";")[0];
      const endings = { "audio/mp4": "m4a", "audio/ogg": "ogg" };
      this.#recorder = null;
      this.#drawRecording();
      this.take([new File(pieces, `voice.${endings[type] ?? "webm"}`, { type })]);
    });
    this.#recorder.start();
    return this.#drawRecording();
  }

  #drawRecording() {
    byId("record").replaceChildren(icon(this.#recorder ? "stop" : "microphone"));
    byId("record").classList.toggle("stops", Boolean(this.#recorder));
    byId("record").setAttribute("aria-label", this.#recorder ? t("Stop recording") : t("Record a voice message"));
    clearInterval(this.#clock);
    this.#fit();
    if (!this.#recorder) return;
    const begun = Date.now();
    const tell = () => {
      const seconds = Math.round((Date.now() - begun) / SECOND);
      this.#text.placeholder = t("Recording: {time}", { time: `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}` });
    };
    tell();
    this.#clock = setInterval(tell, SECOND);
  }

  /** Attach files to the message, unless they are too many or too large. */
  take(list) {
    if (byId("composer").hidden) return;
    const more = [...list].map(taken);
    byId("picker").value = "";
    if (!more.length) return;
    const against = complaint(this.#limits, this.#files, more);
    this.#page.tell(against && t("{against} Nothing was added.", { against }));
    if (against) return;
    this.#files = [...this.#files, ...more];
    this.#filesChanged();
  }

  #paste(event) {
    const { files } = event.clipboardData;
    if (!files.length || event.clipboardData.getData("text/plain")) return; // a text that also comes as a picture is a text
    event.preventDefault();
    this.take(files);
  }

  /** Files may be dropped anywhere. */
  #catchDrops() {
    const drop = byId("drop");
    const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
    addEventListener("dragover", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      drop.hidden = false;
    });
    addEventListener("dragleave", (event) => { if (!event.relatedTarget) drop.hidden = true; });
    addEventListener("drop", (event) => {
      drop.hidden = true;
      if (!hasFiles(event)) return;
      event.preventDefault();
      this.take(event.dataTransfer.files);
      this.#text.focus();
    });
  }

  #filesChanged() {
    this.#drawFiles();
    this.#drawButton();
    kept.keepFiles(this.#session, this.#files);
  }

  #drawFiles() {
    byId("files").replaceChildren(...this.#files.map((file) => h("li", { class: "chip" },
      preview(file), h("span", { class: "name" }, file.name), h("small", {}, bytes(file.blob.size)),
      h("button", { type: "button", class: "icon", "aria-label": t("Remove {name}", { name: file.name }), onclick: () => {
        this.#files = this.#files.filter((other) => other !== file);
        this.#filesChanged();
      } }, icon("close")))));
  }

  // --- completion ----------------------------------------------------------------------------

  async #complete() {
    if (this.#text.value.startsWith("/")) {
      this.#asked ??= this.#page.commands().catch(() => null); // once: a later response would redraw the list
      this.#commands = await this.#asked;
      if (!this.#commands) this.#asked = null;
    }
    const typed = this.#text.value; // the current text: more may have been typed meanwhile
    return this.#offer(this.#commands ? fitting(this.#commands, typed) : []);
  }

  /** Show groups of lines to choose from; a group without a name has no heading. */
  #offer(groups) {
    this.#chosen = -1;
    let count = 0;
    this.#options.replaceChildren(...groups.map(([name, found]) => h("ul", { role: "group", "aria-label": name || t("Commands") },
      name && h("li", { role: "presentation", class: "heading" }, name),
      found.map(({ line, usage, summary }) => h("li", { role: "option", id: `option-${count++}`, "aria-selected": "false", "data-line": line,
        onmousedown: () => this.#fill(line) },
      h("b", {}, line), usage && h("code", {}, withOptions(usage)), h("span", {}, summary))))));
    this.#options.hidden = !count;
    this.#options.scrollTop = 0;
    byId("status").textContent = count === 1 ? t("One command found; choose it with the arrow keys.")
      : count ? t("{n} commands found; choose with the arrow keys.", { n: count }) : "";
    this.#text.removeAttribute("aria-activedescendant");
  }

  get #items() {
    return [...this.#options.querySelectorAll("[role=option]")];
  }

  #choose(step) {
    const items = this.#items;
    this.#chosen = (this.#chosen + step + items.length) % items.length;
    items.forEach((item, index) => item.setAttribute("aria-selected", String(index === this.#chosen)));
    items[this.#chosen].scrollIntoView({ block: "nearest" });
    this.#text.setAttribute("aria-activedescendant", items[this.#chosen].id);
  }

  #fill(line) {
    this.#text.value = `${line} `;
    this.#changed();
    this.#complete();
  }

  #key(event) {
    if (event.isComposing || event.keyCode === COMPOSED) return;
    const isOpen = !this.#options.hidden;
    if (isOpen && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      this.#choose(event.key === "ArrowDown" ? 1 : this.#chosen < 0 ? 0 : -1);
    } else if (isOpen && (event.key === "Tab" || (event.key === "Enter" && this.#chosen >= 0))) {
      event.preventDefault();
      this.#fill(this.#items[Math.max(0, this.#chosen)].dataset.line);
    } else if (isOpen && event.key === "Escape") {
      this.#offer([]);
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey || !(event.shiftKey || isPhone()))) {
      event.preventDefault();
      this.#send();
    }
  }
}

const fresh = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** A file as stored and sent; browsers add parameters to some types. */
const taken = (file) => ({
  name: (file.name || "file").slice(-200), // its end shows its kind
  media_type: (file.type || "application/octet-stream").split(";")[0],
  blob: file,
});
