// Lets the page open while the bot is away. It keeps the page itself (FILES, which the bot puts before
// this text, with their VERSION) and nothing else: what is said and answered is never kept here.
const CACHE = `page-${VERSION}`;

addEventListener("install", (event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(FILES)).then(() => skipWaiting()));
});

addEventListener("activate", (event) => {
  const old = caches.keys().then((names) => Promise.all(names.filter((name) => name !== CACHE).map((name) => caches.delete(name))));
  event.waitUntil(old.then(() => clients.claim()));
});

addEventListener("fetch", (event) => {
  const { origin, pathname } = new URL(event.request.url);
  if (event.request.method !== "GET" || origin !== location.origin || !FILES.includes(pathname)) return;
  event.respondWith(fetch(event.request).catch(() => caches.match(pathname)));
});

/** Show the conversation of a notification that is pressed. */
addEventListener("notificationclick", (event) => {
  event.notification.close();
  const address = event.notification.data;
  event.waitUntil(clients.matchAll({ type: "window" }).then((windows) => {
    const there = windows.find(({ url }) => url === address) ?? windows[0];
    if (!there) return clients.openWindow(address);
    return there.focus().then((seen) => (seen.url === address ? seen : seen.navigate(address)));
  }));
});
