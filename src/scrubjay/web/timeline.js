// The chain on the conversation's timeline: a column a session, in the order they began; those without evidence are folded.

import { count, make, moment, percent, why, words } from "./dom.js";

export function layTimeline(links, sessions, user, address) {
  const bySession = Map.groupBy ? Map.groupBy(links, (link) => link.turn.session_id) : group(links);
  const ordered = [...sessions].sort((one, other) => (one.first_said_at ? Date.parse(one.first_said_at) : Infinity) - (other.first_said_at ? Date.parse(other.first_said_at) : Infinity) || 0);
  const columns = [];
  let folded = [];
  const unfold = () => { if (folded.length) columns.push(foldedColumn(folded, user, address)); folded = []; };
  for (const session of ordered) {
    const held = bySession.get(session.session_id);
    if (!held) { folded.push(session); continue; }
    unfold();
    columns.push(sessionColumn(session, held, user, address));
  }
  unfold();
  return make("section", { class: "timeline-section", "aria-label": "Chain of evidence" },
    make("h3", {}, `${count(links.length, "turn")} of ${count(bySession.size, "session")}, as they were said`),
    make("ol", { class: "timeline", tabindex: 0, "aria-label": "Timeline of sessions" }, columns));
}

function group(links) {
  const groups = new Map();
  for (const link of links) groups.set(link.turn.session_id, [...(groups.get(link.turn.session_id) ?? []), link]);
  return groups;
}

function foldedColumn(sessions, user, address) {
  const turns = sessions.reduce((sum, session) => sum + session.turns, 0);
  const title = `${count(sessions.length, "session")} without evidence, ${count(turns, "turn")}: ${moment(sessions[0].first_said_at, { day: true })} to ${moment(sessions.at(-1).last_said_at, { day: true })}`;
  return make("li", { class: "folded", title },
    make("a", { href: address(user, "conversation", { session: sessions[0].session_id }), "aria-label": title }, make("span", {}, `${count(sessions.length, "session")} · ${count(turns, "turn")}`)));
}

function sessionColumn(session, links, user, address) {
  const cards = [];
  let next = 0;
  const gap = (turns) => turns > 0 && cards.push(make("li", { class: "gap" }, `${count(turns, "turn")} not shown`));
  for (const link of [...links].sort((one, other) => one.turn.index - other.turn.index)) {
    gap(link.turn.index - next);
    cards.push(turnCard(link, user, address));
    next = link.turn.index + 1;
  }
  gap(session.turns - next);
  return make("li", { class: "session" },
    make("header", {}, make("a", { href: address(user, "conversation", { session: session.session_id }) }, moment(session.first_said_at, { day: true })),
      make("span", { class: "id", dir: "auto" }, session.session_id)),
    make("ol", { class: "cards" }, cards));
}

function turnCard(link, user, address) {
  const { turn } = link;
  const cut = link.excerpt && (link.excerpt[0] > 0 || link.excerpt[1] < [...turn.text].length);
  const text = cut ? `${link.excerpt[0] > 0 ? "… " : ""}${[...turn.text].slice(...link.excerpt).join("")}${link.excerpt[1] < [...turn.text].length ? " …" : ""}` : turn.text;
  return make("li", { class: `card turn ${link.kind}`, id: `turn-${link.number}`, tabindex: 0, "aria-label": `${link.kind} ${link.number}` },
    make("header", {}, make("b", {}, `[${link.number}]`), make("span", { class: "speaker", dir: "auto" }, turn.speaker ?? turn.role),
      make("span", { class: "score", title: "probability that this turn is evidence" }, percent(link.probability))),
    make("meter", { min: 0, max: 1, value: link.probability, "aria-label": "probability that this turn is evidence" }),
    words(text), turn.caption && words(`Image: ${turn.caption}`, { class: "words caption" }),
    why(link.reason, link.channels, [
      ["kind", link.kind === "anchor" ? "anchor" : `neighbour of [${link.anchor}]`], ["said", moment(turn.said_at)],
      ["new words", link.new_terms.join(", ")], ["tokens", link.tokens], ["turn", turn.turn_id],
    ]));
}
