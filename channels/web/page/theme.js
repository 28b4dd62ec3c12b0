// Before anything is drawn, so that a dark page does not begin with a white flash, and no side that is
// collapsed is shown for a moment.
try {
  document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "auto";
  document.documentElement.dataset.collapsed = localStorage.getItem("collapsed") ?? "";
} catch { // a browser without storage
  document.documentElement.dataset.theme = "auto";
}
