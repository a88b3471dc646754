// The page: whose memory, which view, and what to say when something goes wrong.
// The address says it all (#/user/view?options), so every view can be linked to and the back button works.

import { Problem, call } from "./api.js";
import { make } from "./dom.js";
import { showAsk } from "./ask.js";
import { showConversation } from "./conversation.js";
import { showForget } from "./forget.js";
import { showNodes, showRecords } from "./records.js";
import { showSegments } from "./segments.js";
import { showStatus } from "./status.js";

const VIEWS = {
  ask: ["Ask", showAsk],
  conversation: ["Conversation", showConversation],
  segments: ["Segments", showSegments],
  records: ["Records", showRecords],
  nodes: ["Entities and dates", showNodes],
  forget: ["Forget", showForget],
  status: ["Status", showStatus],
};

const main = document.getElementById("main");
const message = document.getElementById("message");
let shown = 0; // counts views, so that one that comes late doesn't replace a newer one

export function address(user, view, options = {}) {
  const query = new URLSearchParams(options).toString();
  return `#/${encodeURIComponent(user)}/${view}${query ? `?${query}` : ""}`;
}

function readAddress() {
  const [, path, query = ""] = /^#?\/?([^?]*)\??(.*)$/s.exec(location.hash); // a question may hold more question marks
  const [user = "", view = "ask"] = path.split("/");
  return { user: decodeURIComponent(user), view: view in VIEWS ? view : "ask", options: Object.fromEntries(new URLSearchParams(query)) };
}

/** Say something to the reader; nothing takes the last word away. */
export function say(text, { bad = false } = {}) {
  message.textContent = text;
  message.classList.toggle("bad", bad);
}

function tell(error) {
  if (error.name === "AbortError") return;
  say(error instanceof Problem ? error.message : `This page failed: ${error.message}`, { bad: true });
  if (!(error instanceof Problem)) throw error;
}

/** Run what a button or form asks for, and say what went wrong; what was asked can't be asked twice meanwhile. */
export async function run(button, work) {
  if (button.getAttribute("aria-busy") === "true") return;
  button.setAttribute("aria-busy", "true");
  say("");
  try {
    await work();
  } catch (error) {
    tell(error);
  } finally {
    button.removeAttribute("aria-busy");
  }
}

async function show() {
  const { user, view, options } = readAddress();
  const mine = ++shown;
  document.getElementById("user").value = user;
  document.title = user ? `${VIEWS[view][0]} · ${user} · ScrubJay` : "ScrubJay";
  document.getElementById("views").replaceChildren(...Object.entries(VIEWS).map(([name, [title]]) =>
    make("li", {}, make("a", { href: address(user, name), "aria-current": name === view ? "page" : undefined }, title))));
  document.querySelector("nav").hidden = !user;
  say("");
  if (!user) {
    main.replaceChildren(await welcome());
    return;
  }
  try {
    const made = await VIEWS[view][1]({ user, options, address, say, run });
    if (mine !== shown) return;
    main.replaceChildren(...[made].flat());
    main.querySelector(".said.marked")?.scrollIntoView({ block: "center" });
  } catch (error) {
    if (mine === shown) main.replaceChildren(make("h2", {}, VIEWS[view][0]));
    tell(error);
  }
}

/** List the users whom the key is for, and offer them where one is written. */
async function listUsers() {
  const { users } = await call("users");
  document.getElementById("users").replaceChildren(...users.map((user) => make("option", { value: user })));
  return users;
}

async function welcome() {
  const users = await listUsers();
  if (users.length === 1) location.replace(address(users[0], "ask"));
  const list = users.map((user) => make("li", {}, make("a", { href: address(user, "ask"), dir: "auto" }, user)));
  return make("section", {}, make("h2", {}, "Whose memory?"),
    users.length ? make("ul", { class: "users" }, list) : make("p", {}, "There is no memory here yet: one is made when the first turn is added."));
}

document.getElementById("whose").addEventListener("submit", (event) => {
  event.preventDefault();
  location.hash = address(document.getElementById("user").value.trim(), readAddress().view);
});
addEventListener("hashchange", () => show().catch(tell));
show().catch(tell);
if (readAddress().user) listUsers().catch(tell); // without one, the welcome lists them
