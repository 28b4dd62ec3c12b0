// The list of commands that can be typed: first those most used in this browser.
import { t } from "./language.js";
import { recall, remember } from "./storage.js";

const USED = "commands"; // the key under which uses are counted
const MOST = 6; // commands above all others

function uses() {
  try {
    return JSON.parse(recall(USED)) ?? {};
  } catch {
    return {};
  }
}

/** Count a use of a command. */
export function counted(line) {
  const name = line.slice(1).split(/\s/)[0].toLowerCase();
  const all = uses();
  remember(USED, JSON.stringify({ ...all, [name]: (all[name] ?? 0) + 1 }));
}

/** Return the lines that can be typed next, as [name of a group, lines] pairs. `commands` are those in /help. */
export function fitting({ commands, groups, first }, typed) {
  const [, name, sub] = typed.match(/^\/(\w*)(?: (\w*))?$/) ?? [];
  if (name === undefined) return [];
  if (sub !== undefined) {
    const found = commands.find((one) => one.name === name.toLowerCase());
    const lines = (found?.subcommands ?? []).map((one) => ({ line: `/${name} ${one.name}`, summary: one.summary }));
    return grouped([["", lines.filter(({ line }) => begins(line, typed))]]);
  }
  const used = uses();
  const known = new Map(commands.map((one) => [one.name, { line: `/${one.name}`, usage: one.usage, summary: one.summary }]));
  const order = [...first, ...groups.flatMap((group) => group.commands)].filter((one, at, all) => known.has(one) && all.indexOf(one) === at);
  const ranked = order.toSorted((one, other) => (used[other] ?? 0) - (used[one] ?? 0));
  if (name) return grouped([["", ranked.map((one) => known.get(one)).filter(({ line }) => begins(line, typed))]]);
  const top = ranked.slice(0, MOST);
  return grouped([[t("Most used"), top.map((one) => known.get(one))],
    ...groups.map((group) => [group.name, group.commands.filter((one) => !top.includes(one)).map((one) => known.get(one))])]);
}

const begins = (line, typed) => line.startsWith(typed.toLowerCase()) && line !== typed;
const grouped = (groups) => groups.filter(([, lines]) => lines.length);
