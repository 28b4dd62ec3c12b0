// An uneven network: each response and each event reaches the page after a random delay, the events
// of one stream in their order. A page load has a delay of its own for either.
{
  const scale = () => [0, 200, 1_200][Math.floor(3 * Math.random())];
  const [ofResponses, ofEvents] = [scale(), scale()];
  const pause = (most) => new Promise((done) => setTimeout(done, most * Math.random() ** 2));
  const request = window.fetch;
  window.fetch = async (...all) => {
    await pause(ofResponses / 4);
    const response = await request(...all);
    await pause(ofResponses);
    return response;
  };
  const listen = EventSource.prototype.addEventListener;
  const last = new WeakMap();
  EventSource.prototype.addEventListener = function add(kind, handle, ...rest) {
    listen.call(this, kind, (event) => {
      const before = last.get(this) ?? Promise.resolve();
      const delivered = before.then(() => pause(ofEvents));
      last.set(this, delivered.then(() => this.readyState === EventSource.CLOSED || handle.call(this, event)));
    }, ...rest);
  };
}
