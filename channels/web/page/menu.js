// A menu that opens at a button and closes by itself.
import { byId, h } from "./dom.js";

/** Offer choices; resolves to the value of the chosen one, or null. */
export function chosen(button, entries) {
  const menu = byId("menu");
  return new Promise((resolve) => {
    let picked = null;
    menu.replaceChildren(...entries.map(([label, value]) => h("button", { type: "button", role: "menuitem", onclick: () => {
      picked = value;
      menu.hidePopover();
    } }, label)));
    const closed = (event) => {
      if (event.newState !== "closed") return;
      menu.removeEventListener("toggle", closed);
      menu.removeEventListener("keydown", moved);
      if (menu.contains(document.activeElement) || document.activeElement === document.body) button.focus();
      resolve(picked);
    };
    const moved = (event) => {
      if (event.key === "Escape") event.stopPropagation(); // it closes the menu alone
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const items = [...menu.children];
      items.at((items.indexOf(document.activeElement) + step) % items.length).focus();
    };
    menu.addEventListener("toggle", closed);
    menu.addEventListener("keydown", moved);
    menu.showPopover();
    place(menu, button.getBoundingClientRect());
    menu.firstChild.focus();
  });
}

/** Below the button, or above it if there is no space. */
function place(menu, at) {
  const { offsetWidth: width, offsetHeight: height } = menu;
  const below = at.bottom + height < innerHeight;
  menu.style.top = `${below ? at.bottom : Math.max(0, at.top - height)}px`;
  menu.style.left = `${Math.max(4, Math.min(at.left, innerWidth - width - 4))}px`;
}
