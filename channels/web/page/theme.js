// Before anything is drawn, so that a dark page does not begin with a white flash.
document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "auto";
