// Tabs: one of several panels is shown, and the arrow keys go from tab to tab.
const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/** Make a list of tabs work; each names its panel in aria-controls. Returns what shows the tab of a
    panel. `shown` is told the panel. */
export function tabbed(list, shown = () => {}) {
  const tabs = [...list.querySelectorAll("[role=tab]")];
  const show = (panel) => {
    for (const tab of tabs) {
      const isChosen = tab.getAttribute("aria-controls") === panel;
      tab.setAttribute("aria-selected", String(isChosen));
      tab.tabIndex = isChosen ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = !isChosen;
    }
    shown(panel);
  };
  const choose = (tab) => {
    show(tab.getAttribute("aria-controls"));
    tab.focus();
    tab.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  list.addEventListener("click", ({ target }) => target.closest("[role=tab]") && choose(target.closest("[role=tab]")));
  list.addEventListener("keydown", (event) => {
    const at = tabs.indexOf(event.target);
    const ends = { Home: 0, End: tabs.length - 1 };
    const to = ends[event.key] ?? (STEPS[event.key] && (at + STEPS[event.key] + tabs.length) % tabs.length);
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    choose(tabs[to]);
  });
  return show;
}
