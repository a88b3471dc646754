// Ask, and see the chain of evidence laid out on the conversation's timeline.

import { Problem, call, events, of } from "./api.js";
import { count, field, make, moment, percent, why, words } from "./dom.js";
import { layTimeline } from "./timeline.js";

const STRATEGIES = { auto: "whatever there is", chain: "turns only", planned: "records and turns" };

export async function showAsk({ user, options, address, run }) {
  const { sessions } = await call(of(user, "sessions"));
  const question = make("input", { name: "question", required: true, value: options.q ?? "", dir: "auto", placeholder: "What do you want to know?", "aria-label": "Question" });
  const strategy = make("select", { name: "strategy" }, Object.entries(STRATEGIES).map(([name, title]) => make("option", { value: name, selected: name === options.strategy }, title)));
  const tokens = make("input", { name: "tokens", type: "number", min: 50, max: 100000, value: options.tokens ?? 1000 });
  const asker = make("input", { name: "asker", value: options.asker ?? "", dir: "auto", placeholder: "a speaker’s name" });
  const result = make("div", { class: "result", "aria-live": "polite" }, tellHeld(sessions));
  const answerButton = make("button", { type: "button", class: "second", click: () => submit(answerButton, true) }, "Answer");
  const form = make("form", { class: "ask", submit: (event) => { event.preventDefault(); submit(event.submitter ?? form, false); } },
    question, make("button", {}, "Find evidence"), answerButton,
    make("div", { class: "fields" }, field("Look in", strategy), field("Tokens at most", tokens), field("Who “I” is", asker)));

  function submit(button, withAnswer) {
    if (!form.reportValidity()) return;
    const asked = { q: question.value, tokens: tokens.value, strategy: strategy.value, ...(asker.value && { asker: asker.value }) };
    history.replaceState(null, "", address(user, "ask", asked));
    const body = { question: question.value, max_tokens: Number(tokens.value), strategy: strategy.value, ...(asker.value && { asker: asker.value }) };
    run(button, () => (withAnswer ? answer(body) : find(body)));
  }
  async function find(body) {
    result.replaceChildren(...showEvidence(await call(of(user, "recall"), { method: "POST", body }), sessions, user, address));
  }
  async function answer(body) {
    const said = make("blockquote", { class: "answer words", dir: "auto" });
    for await (const [name, document] of events(of(user, "answer"), { method: "POST", body })) {
      if (name === "evidence") result.replaceChildren(said, ...showEvidence(document, sessions, user, address));
      else if (name === "piece") said.append(document.text);
      else if (name === "problem") throw new Problem(document.status, document);
      else if (name === "answer") finish(said, document);
    }
  }
  if (options.q) queueMicrotask(() => submit(form, false));
  return [make("h2", { class: "unseen" }, "Ask"), form, result];
}

/** Say what there is to be asked about. */
function tellHeld(sessions) {
  if (!sessions.length) return make("p", { class: "nothing" }, "Nothing was said yet.");
  const turns = sessions.reduce((sum, session) => sum + session.turns, 0);
  const times = sessions.flatMap((session) => [session.first_said_at, session.last_said_at]).filter(Boolean).sort((one, other) => Date.parse(one) - Date.parse(other));
  const span = times.length ? `, ${moment(times[0], { day: true })} to ${moment(times.at(-1), { day: true })}` : "";
  return make("p", { class: "held" }, `${count(turns, "turn")} in ${count(sessions.length, "session")}${span}.`);
}

function finish(said, answer) {
  const cited = answer.numbers.map((number) => `[${number}]`).join(" ");
  const spent = answer.usage.map((usage) => `${usage.stage} ${(usage.input_tokens + usage.output_tokens).toLocaleString("en")}`).join(", ");
  said.replaceChildren(answer.abstained ? "The evidence holds no answer." : answer.answer);
  said.append(make("footer", {}, cited ? `by ${cited}; ` : "", `tokens: ${spent || "none"}`));
}

function showEvidence(evidence, sessions, user, address) {
  if (!evidence.links.length && !evidence.records.length) {
    return [make("p", { class: "nothing" }, "Nothing in this memory is relevant to that.")];
  }
  const facts = [
    ["strategy", evidence.strategy + (evidence.question_type ? ` (${evidence.question_type})` : "")],
    ["tokens", `${evidence.tokens.toLocaleString("en")} of ${evidence.max_tokens.toLocaleString("en")}`],
    ["can be answered", `${percent(evidence.confidence)}${evidence.is_answerable ? "" : ", rather not"}`],
    evidence.time_range && ["time asked about", `“${evidence.time_range.text}”: ${moment(evidence.time_range.start, { day: true })} to ${moment(evidence.time_range.end, { day: true })}`],
    ...(evidence.trace ?? []).filter((stage) => stage.fallback).map((stage) => [`${stage.stage} fell back`, stage.fallback]),
  ].filter(Boolean);
  const time = (evidence.trace ?? []).reduce((sum, stage) => sum + stage.milliseconds, 0);
  const stages = (evidence.trace ?? []).map((stage) => `${stage.stage} ${stage.milliseconds.toFixed(1)} ms`).join(", ");
  return [
    make("dl", { class: "facts" }, [...facts, time && ["time", make("span", { title: stages }, `${time.toFixed(1)} ms`)]].filter(Boolean)
      .map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)))),
    make("meter", { class: "budget", min: 0, max: evidence.max_tokens, value: evidence.tokens, title: "context tokens used", "aria-label": "context tokens used" }),
    evidence.records.length > 0 && make("section", { class: "records-lane", "aria-label": "Records" },
      make("h3", {}, count(evidence.records.length, "record")), make("ul", { class: "cards" }, evidence.records.map((link) => recordCard(link, user, address)))),
    layTimeline(evidence.links, sessions, user, address),
    make("details", { class: "context" }, make("summary", {}, "The context, as a model is given it"), make("pre", { dir: "auto" }, evidence.text)),
  ].filter(Boolean);
}

function recordCard(link, user, address) {
  const mark = (on) => link.turns.forEach((number) => document.getElementById(`turn-${number}`)?.classList.toggle("marked", on));
  const shown = link.turns.map((number) => make("a", { href: `#turn-${number}`, click: (event) => { event.preventDefault(); document.getElementById(`turn-${number}`)?.focus(); } }, `[${number}]`));
  const others = link.record.turn_ids.length - link.turns.length;
  const first = link.record.turn_ids[0];
  return make("li", { class: `card record ${link.record.supported ? "" : "unsupported"}`, tabindex: 0, mouseenter: () => mark(true), mouseleave: () => mark(false), focus: () => mark(true), blur: () => mark(false) },
    make("header", {}, make("b", {}, `[${link.number}]`), make("span", { class: "kind" }, link.record.type.replaceAll("_", " ")), make("span", { class: "score" }, percent(link.score))),
    words(link.record.text),
    make("p", { class: "sources" }, shown.length ? ["turns ", ...shown.flatMap((chip) => [chip, " "])] : null,
      others > 0 && make("a", { href: address(user, "conversation", { turn: first }) }, `${count(others, "turn")} not shown`)),
    why(link.reason, link.channels, [["happened", [link.record.t_valid_from ?? link.record.t_ref, link.record.t_valid_to].filter(Boolean).join(" to ")], ["stance", link.record.stance], ["support", link.record.supported ? "its words stand in its turns" : link.record.support_reason]]));
}
