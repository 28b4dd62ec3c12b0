// Small pictures for buttons, drawn here, so that no font needs them.
const PATHS = {
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  again: "M20 11a8 8 0 1 0-2 6M20 4v7h-7",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  pin: "M9 4h6l-1 6 4 4H6l4-4zM12 14v6",
  drop: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  before: "M15 5l-7 7 7 7",
  after: "M9 5l7 7-7 7",
  end: "M12 4v15M5 12l7 7 7-7",
  gear: "M12 8.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM19 13.5l2 1.2-2 3.4-2.2-.8-2 1.2-.4 2.5h-4l-.4-2.5-2-1.2-2.2.8-2-3.4 2-1.2v-3l-2-1.2 2-3.4 2.2.8 2-1.2.4-2.5h4l.4 2.5 2 1.2 2.2-.8 2 3.4-2 1.2z",
  new: "M12 4H6a2 2 0 0 0-2 2v12a2 2 0 0 0 2 2h12a2 2 0 0 0 2-2v-6M10 14l.5-3L18 3.5l2.5 2.5L13 13.5z",
  microphone: "M12 4a3 3 0 0 1 3 3v4a3 3 0 0 1-6 0V7a3 3 0 0 1 3-3zM6 11a6 6 0 0 0 12 0M12 17v3M9 20h6",
  stop: "M7 7h10v10H7z",
  more: "M4.5 12h1M11.5 12h1M18.5 12h1",
  close: "M6 6l12 12M18 6L6 18",
  list: "M4 6h16M4 12h16M4 18h16",
  add: "M12 5v14M5 12h14",
  send: "M12 20V5M5 12l7-7 7 7",
  look: "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM15.5 15.5L20 20",
  download: "M12 4v11M7 10l5 5 5-5M5 20h14",
};

/** An icon of this name, as tall as the text around it. */
export function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const path = document.createElementNS(space, "path");
  for (const [key, value] of Object.entries({ viewBox: "0 0 24 24", "aria-hidden": "true", class: "drawn" })) svg.setAttribute(key, value);
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

for (const place of document.querySelectorAll("[data-icon]")) place.append(icon(place.dataset.icon));
