// The page: whose memory, which view, and what to say when something goes wrong.
// The address says it all (#/user/view?options), so every view can be linked to and the back button works.

import { Problem, call, query } from "./api.js";
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
  const [, path, asked = ""] = /^#?\/?([^?]*)\??(.*)$/s.exec(location.hash); // a question may hold more question marks
  const [user = "", view = "ask"] = path.split("/");
  return { user: decoded(user), view: view in VIEWS ? view : "ask", options: Object.fromEntries(new URLSearchParams(asked)) };
}

/** Give what a part of the address stands for; one that was typed there, and stands for nothing, as it is. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch (error) {
    if (error instanceof URIError) return part;
    throw error;
  }
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

/** List the users whom the key is for, a page of them after one, and offer the first of them where one is written. */
async function listUsers(after = null) {
  const page = await call(query("users", { after }));
  if (!after) document.getElementById("users").replaceChildren(...page.users.map((user) => make("option", { value: user })));
  return page;
}

async function welcome() {
  const list = make("ul", { class: "users" });
  const more = make("button", { type: "button", class: "second", click: () => run(more, load) }, "More users");
  let after = null;
  async function load() {
    const { users, next } = await listUsers(after);
    list.append(...users.map((user) => make("li", {}, make("a", { href: address(user, "ask"), dir: "auto" }, user))));
    after = next;
    more.hidden = next === null;
    return users;
  }
  const users = await load();
  if (users.length === 1 && more.hidden) location.replace(address(users[0], "ask"));
  return make("section", {}, make("h2", {}, "Whose memory?"),
    users.length ? [list, more] : make("p", {}, "There is no memory here yet: one is made when the first turn is added."));
}

document.getElementById("whose").addEventListener("submit", (event) => {
  event.preventDefault();
  location.hash = address(document.getElementById("user").value.trim(), readAddress().view);
});
addEventListener("hashchange", () => show().catch(tell));
show().catch(tell);
if (readAddress().user) listUsers().catch(tell); // without one, the welcome lists them
