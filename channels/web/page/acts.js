// The line below an answer: the actions on the turn, its cost, and the other answers to its question. Each
// control is a command.
import { icon } from "./icons.js";
import { amount, h, money } from "./dom.js";
import { isUsual, marks, nameOfState, t, told } from "./language.js";
import { chosen } from "./menu.js";
import { copied } from "./text.js";

/** A button with an icon; its name is visible and read aloud. Pressed twice, it acts once. */
export function iconButton(name, title, does, extra = {}) {
  const button = h("button", { type: "button", class: "icon act", title, "aria-label": title, onclick: async (event) => {
    button.ariaDisabled = "true";
    try {
      await does(event);
    } finally {
      button.ariaDisabled = null;
    }
  }, ...extra }, icon(name));
  return button;
}

/** The row under a turn. `page` says what is done: act(line), why(turn), edit(turn), model(turn),
    quote(turn). */
export function acts(turn, answer, page) {
  const copy = iconButton("copy", t("Copy the answer"), async () => {
    await copied(answer);
    copy.classList.add("done");
    copy.title = t("Copied");
    setTimeout(() => { copy.classList.remove("done"); copy.title = t("Copy the answer"); }, 1500);
  }, { disabled: !answer });
  return h("div", { class: "under", role: "group", "aria-label": t("Actions for {turn}", { turn }) },
    copy,
    iconButton("again", t("Retry in a new branch"), () => page.act(`/regenerate ${turn}`)),
    iconButton("edit", t("Edit the question"), () => page.edit(turn), { "data-way": "edit" }),
    iconButton("pin", t("Pin"), (event) => {
      const isPinned = event.currentTarget.getAttribute("aria-pressed") === "true";
      page.act(`/context ${isPinned ? "unpin" : "pin"} ${turn}`);
    }, { "data-act": "pin" }),
    iconButton("drop", t("Drop from the context"), () => page.act(`/context drop ${turn}`), { "data-act": "drop" }),
    iconButton("more", t("More for {label}", { label: turn }), async (event) => {
      const act = await chosen(event.currentTarget, [
        [t("Retry with another model"), () => page.model(turn)],
        [t("Branch off from here"), () => page.act(`/fork ${turn}`, { isTold: true })],
        [t("Quote"), () => page.quote(turn)],
        [t("Why this answer?"), () => page.why(turn)],
      ]);
      await act?.();
    }, { "aria-haspopup": "menu" }));
}

/** Return the known facts about a turn, in a line: its state, its size, its cost and its model. */
export function facts({ state = [], tokens, cost, models = [], prompt = 0, completion = 0 }) {
  const calls = prompt + completion;
  const words = [
    ...state.filter((word) => !isUsual(word)).map(nameOfState),
    tokens !== undefined && t("{n} tokens", { n: amount(tokens) }),
    calls > 0 && cost !== null && money(cost),
    models.map(told).join(marks.comma),
  ].filter(Boolean);
  const title = calls ? t("{prompt} tokens read, {completion} written", { prompt: amount(prompt), completion: amount(completion) }) : "";
  return { words: words.join(" · "), title };
}

/** Arrows between the answers to a turn: those in other branches are next to this one. */
export function arrows({ at, branches }, turn, go) {
  const step = (name, title, to) => iconButton(name, title, () => go(branches[to], turn), { disabled: !branches[to] });
  return h("span", { class: "variants", role: "group", "aria-label": t("Variants of {turn}", { turn }) },
    step("before", t("Previous"), at - 1),
    h("span", {}, `${at + 1}/${branches.length}`),
    step("after", t("Next"), at + 1));
}

/** Return the branches that differ, by turn: a map of turn numbers to {at, branches}, where
    `branches` are numbers of branches, one for each variant, and `at` is the one that is open. */
export function variants(all) {
  const byNumber = new Map(all.map((branch) => [branch.number, { ...branch, shared: Number(branch.turn.slice(1) || 0) }]));
  const current = all.find((branch) => branch.is_current);
  const found = new Map();
  if (!current || all.length < 2) return found;
  const owner = (branch, turn, depth = 0) => {
    const parent = byNumber.get(branch.parent);
    return turn > branch.shared || !parent || depth > 50 ? branch.number : owner(parent, turn, depth + 1);
  };
  const here = byNumber.get(current.number);
  for (const turn of new Set([...byNumber.values()].map(({ shared }) => shared + 1))) {
    if (turn > here.turns) continue;
    const others = new Map([[owner(here, turn), here]]);
    for (const branch of byNumber.values()) {
      const isBeside = branch.turns >= turn && (turn === 1 || owner(branch, turn - 1) === owner(here, turn - 1));
      const whose = owner(branch, turn);
      if (!isBeside || whose === owner(here, turn)) continue;
      const best = others.get(whose);
      if (!best || branch.at > best.at) others.set(whose, branch);
    }
    if (others.size < 2) continue;
    const ordered = [...others].sort(([one], [other]) => one - other);
    found.set(turn, { at: ordered.findIndex(([whose]) => whose === owner(here, turn)), branches: ordered.map(([, branch]) => branch.number) });
  }
  return found;
}
