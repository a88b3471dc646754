// The log, as it was said: sessions, and the turns of one.

import { call, of, query } from "./api.js";
import { apart, count, make, moment, words } from "./dom.js";

const AT_ONCE = 200;

export async function showConversation({ user, options, address, run }) {
  const { sessions } = await call(of(user, "sessions"));
  if (!sessions.length) return [make("h2", {}, "Conversation"), make("p", {}, "Nothing was said yet.")];
  const sought = options.turn ? await call(of(user, `turns/${encodeURIComponent(options.turn)}`)) : null;
  const chosen = sought?.session_id ?? options.session ?? sessions.at(-1).session_id;
  const list = make("ol", { class: "turns" });
  const more = make("button", { type: "button", class: "second", click: () => run(more, load) }, "More turns");
  let after = null;
  async function load() {
    const page = await call(query(of(user, "turns"), { session_id: chosen, after, limit: AT_ONCE }));
    list.append(...page.turns.map((turn) => turnItem(turn, user, address, turn.turn_id === sought?.turn_id)));
    after = page.next;
    more.hidden = !page.next;
  }
  await load();
  while (sought && !more.hidden && !list.querySelector(".marked")) await load();
  const picker = make("select", { "aria-label": "Session", change: () => { location.hash = address(user, "conversation", { session: picker.value }); } },
    sessions.map((session) => make("option", { value: session.session_id, selected: session.session_id === chosen }, `${moment(session.first_said_at, { day: true })} · ${apart(session.session_id)} · ${count(session.turns, "turn")}`)));
  const links = sessions.map((session) => make("li", {}, make("a", { href: address(user, "conversation", { session: session.session_id }), "aria-current": session.session_id === chosen ? "true" : undefined },
    moment(session.first_said_at, { day: true }), make("small", {}, `${apart(session.session_id)} · ${count(session.turns, "turn")}`))));
  return [make("h2", {}, "Conversation"), make("div", { class: "aside" }, make("div", { class: "picker" }, picker),
    make("nav", { class: "sessions", "aria-label": "Sessions" }, make("ol", {}, links)), make("div", {}, list, more))];
}

export function turnItem(turn, user, address, marked = false) {
  return make("li", { class: `said ${turn.role}${marked ? " marked" : ""}` },
    make("header", {}, make("b", { dir: "auto" }, turn.speaker ?? turn.role), make("time", {}, moment(turn.said_at)),
      make("a", { class: "quiet", href: address(user, "forget", { turn: turn.turn_id }), "aria-label": `Forget the turn ${turn.turn_id}` }, "forget …")),
    words(turn.text), turn.caption && words(`Image: ${turn.caption}`, { class: "words caption" }));
}
