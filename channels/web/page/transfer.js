// Conversations as files: saved to this machine, and loaded from it.
import * as api from "./api.js";
import { h } from "./dom.js";

const FILES = { markdown: "context.md", json: "context.json" };

/** Save a conversation as a file; returns the message about it. */
export async function download({ name, title }, kind) {
  const reply = await api.command(name, `/context export ${kind}`);
  const path = reply.data?.paths?.find((one) => one.endsWith(`/${FILES[kind]}`));
  if (!path) return reply.text;
  const content = await api.file(name, path);
  const address = URL.createObjectURL(content);
  const called = title.replace(/[\\/:*?"<>|\p{Cc}]+/gu, " ").trim().slice(0, 80) || "conversation";
  h("a", { href: address, download: `${called}${kind === "json" ? ".json" : ".md"}` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000); // the browser may ask first where to save it
  return "";
}

/** Import the turns of a file into a session; `isTaken` tells whether it has them now. */
export async function importing(name, file) {
  const data = await api.base64(file);
  const attachments = [{ name: file.name.slice(-200), media_type: "application/json", data }];
  const reply = await api.ask(name, { text: "/context import", attachments });
  return { text: reply.text.split("\n")[0].replaceAll(/[*`]/g, ""), isTaken: Boolean(reply.data?.turns) };
}
