// The search of the site is a Worker, which browsers refuse to a page that is opened as a file. There
// an invisible frame takes its place: it runs the same script, and the same messages go in and out.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    onmessage = null;
    #frame = document.createElement("iframe");
    #loaded;

    constructor(address) {
      super();
      this.#frame.hidden = true;
      document.documentElement.append(this.#frame);
      const inner = this.#frame.contentWindow;
      inner.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      const script = inner.document.createElement("script");
      script.src = new URL(address, location.href).href;
      this.#loaded = new Promise((resolve) => { script.onload = resolve; });
      inner.document.documentElement.append(script);
    }

    postMessage(data) {
      const inner = this.#frame.contentWindow;
      this.#loaded.then(() => inner.dispatchEvent(new inner.MessageEvent("message", { data })));
    }

    terminate() { this.#frame.remove(); }
  };
}
