// Before anything is drawn, so that a dark page does not begin with a white flash.
try {
  document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "auto";
} catch { // a browser that keeps nothing
  document.documentElement.dataset.theme = "auto";
}
