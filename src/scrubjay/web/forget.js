// Forgetting: what would go is shown first, and only what was shown can be forgotten.

import { call, of } from "./api.js";
import { apart, count, field, make, moment, table } from "./dom.js";

const WHAT = { turn: "One turn", session: "A session", before: "All before a time", everything: "Everything" };

export async function showForget({ user, options, say, run }) {
  const { sessions } = await call(of(user, "sessions"));
  const what = make("select", { change: choose }, Object.entries(WHAT).map(([name, title]) => make("option", { value: name, selected: name in options }, title)));
  const turn = make("input", { value: options.turn ?? "", spellcheck: false, placeholder: "turn id", dir: "auto" });
  const session = make("select", {}, sessions.map((held) => make("option", { value: held.session_id, selected: held.session_id === options.session }, `${moment(held.first_said_at, { day: true })} · ${apart(held.session_id)}`)));
  const before = make("input", { type: "datetime-local" });
  const sure = make("input", { spellcheck: false, dir: "auto", autocomplete: "off" });
  const fields = { turn: field("Turn id", turn), session: field("Session", session), before: field("Before (UTC)", before), everything: field(`To forget everything, write the user id “${apart(user)}”`, sure) };
  const report = make("div", { "aria-live": "polite" });
  const preview = make("button", { type: "button", click: () => run(preview, look) }, "Show what would go");
  const forget = make("button", { type: "button", class: "danger", click: () => run(forget, work) }, "Forget it for good");
  let seen = null;

  function choose() {
    for (const [name, part] of Object.entries(fields)) part.hidden = name !== what.value;
    unsee();
  }
  function unsee() { seen = null; forget.disabled = true; report.replaceChildren(); }
  function filter() {
    if (what.value === "everything") {
      if (sure.value !== user) throw new Error("the user id written there is another");
      return { everything: true };
    }
    const value = { turn: turn.value, session: session.value, before: before.value && `${before.value}:00Z` }[what.value];
    if (!value) throw new Error(`choose ${WHAT[what.value].toLowerCase()} first`);
    return { [what.value]: value };
  }
  async function look() {
    let chosen;
    try { chosen = filter(); } catch (error) { say(error.message, { bad: true }); return; }
    const told = await call(of(user, "forget"), { method: "POST", body: { ...chosen, dry_run: true } });
    report.replaceChildren(tell("Would go", told));
    seen = chosen;
    forget.disabled = told.turns === 0;
  }
  async function work() {
    const done = await call(of(user, "forget"), { method: "POST", body: seen });
    unsee();
    report.replaceChildren(tell("Gone", done));
    say(done.scrubbed ? `${count(done.turns, "turn")} forgotten, from the file's bytes too.` : done.pending);
  }
  for (const input of [turn, session, before, sure]) input.addEventListener("input", unsee);
  choose();
  return [make("h2", {}, "Forget"), make("p", {}, "What is forgotten is deleted with all that was made of it. It can't be brought back."),
    make("div", { class: "fields" }, field("What", what), Object.values(fields)), make("div", { class: "fields" }, preview, forget), report];
}

const tell = (caption, report) => table(caption, ["place", ">count"],
  ["turns", "sessions", "passages", "records", "nodes", "notes"].map((name) => [name, String(report[name])]));
