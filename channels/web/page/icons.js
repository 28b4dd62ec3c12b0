// Small pictures on buttons, drawn here: no font has to have them.
const PATHS = {
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  again: "M20 11a8 8 0 1 0-2 6M20 4v7h-7",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  pin: "M9 4h6l-1 6 4 4H6l4-4zM12 14v6",
  drop: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  fork: "M7 4v9M7 20v-3a4 4 0 0 1 4-4h2a4 4 0 0 0 4-4V4M4 7l3-3 3 3M14 7l3-3 3 3",
  quote: "M5 6h5v6c0 3-2 5-4 6M14 6h5v6c0 3-2 5-4 6",
  before: "M15 5l-7 7 7 7",
  after: "M9 5l7 7-7 7",
  end: "M12 4v15M5 12l7 7 7-7",
  swap: "M4 9h14l-4-4M20 15H6l4 4",
  why: "M8 9a4 4 0 1 1 6 3.5c-1.5.8-2 1.5-2 2.5v1M12 19v1",
  close: "M6 6l12 12M18 6L6 18",
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
