// Segments by state: why each closed, what went wrong, and another try.

import { Problem, call, of, query } from "./api.js";
import { apart, count, field, make, moment, table } from "./dom.js";

const STATES = ["open", "pending", "encoded", "failed"];
const POLL = 500; // milliseconds between looks at an operation

export async function showSegments({ user, options, address, say, run }) {
  const [{ segments }, status] = await Promise.all([
    call(query(of(user, "segments"), { state: options.state, session_id: options.session })), call(of(user, "status"))]);
  const state = make("select", { change: () => { location.hash = address(user, "segments", state.value && { state: state.value }); } },
    make("option", { value: "" }, "any"), STATES.slice(1).map((name) => make("option", { selected: name === options.state }, name)));
  const plan = make("p", { class: "plan" });
  const flush = make("input", { type: "checkbox" });
  const reckon = make("button", { type: "button", class: "second", click: () => run(reckon, dryRun) }, "What would it cost?");
  const consolidate = make("button", { type: "button", click: () => run(consolidate, work) }, "Consolidate now");
  const retry = make("button", { type: "button", class: "second", click: () => run(retry, tryAgain) }, "Try failed ones again");
  retry.hidden = !status.segments_by_state.failed;

  async function dryRun() {
    const reckoned = await call(of(user, "consolidate"), { method: "POST", body: { dry_run: true, flush: flush.checked } });
    plan.textContent = `${count(reckoned.segments, "segment")}, ${count(reckoned.calls, "call")}, about ${reckoned.input_tokens.toLocaleString("en")} tokens in and ${reckoned.output_tokens.toLocaleString("en")} out.`;
  }
  async function work() {
    let operation = await call(of(user, "consolidate"), { method: "POST", body: { flush: flush.checked } });
    while (operation.state === "running") {
      say(`Encoding: ${operation.done}${operation.total === null ? "" : ` of ${operation.total}`}`);
      await new Promise((resolve) => setTimeout(resolve, POLL));
      operation = await call(of(user, `operations/${operation.operation_id}`));
    }
    if (operation.problem) throw new Problem(operation.problem.status, operation.problem);
    dispatchEvent(new HashChangeEvent("hashchange"));
    tellDone(operation.report, say);
  }
  async function tryAgain() {
    const { retried } = await call(of(user, "segments/retry"), { method: "POST" });
    dispatchEvent(new HashChangeEvent("hashchange"));
    say(`${count(retried, "segment")} will be tried again when next consolidated.`);
  }

  const counts = STATES.map((name) => [name, status.turns_by_state[name], name === "open" ? null : status.segments_by_state[name]]);
  return [make("h2", {}, "Segments"),
    make("p", {}, "A segment is a stretch of a session about one matter; it stays open until the talk moves on. Consolidating has the configured model make records of each that has closed, one call a segment. Turns are found without it too."),
    table("Every turn is in one state", ["state", ">turns", ">segments"], counts.map(([name, turns, held]) => [name, String(turns), held === null ? "" : String(held)])),
    make("div", { class: "fields" }, consolidate, reckon, retry, make("label", { class: "check" }, flush, " close open segments too")), plan,
    make("div", { class: "fields" }, field("State", state)),
    segments.length ? make("ul", { class: "cards wide" }, segments.map((segment) => segmentItem(segment, user, address))) : make("p", { class: "nothing" }, options.state || options.session ? "No such segments." : "No segment has closed yet: consolidating looks where the talk moved on.")];
}

/** Say what a consolidation did, and why it ended before all was done. */
function tellDone(report, say) {
  if (!report) return say("It was broken off: consolidate again to go on.", { bad: true });
  const failed = report.failed ? `, ${count(report.failed, "attempt")} failed` : "";
  const stopped = report.stopped ? `. It stopped: ${report.stopped}` : "";
  return say(`${count(report.encoded, "segment")} encoded, ${count(report.records, "new record")}${failed}${stopped}`, { bad: Boolean(failed || stopped) });
}

function segmentItem(segment, user, address) {
  const signals = Object.entries(segment.signals).map(([name, value]) => make("div", {}, make("dt", {}, name.replaceAll("_", " ")), make("dd", {}, value.toFixed(2))));
  return make("li", { class: `card segment ${segment.state}` },
    make("header", {}, make("b", {}, `${apart(segment.session_id)} · ${segment.number + 1}`), make("span", { class: "kind" }, segment.state), make("time", {}, moment(segment.updated_at))),
    make("p", {}, `closed: ${segment.reason.replaceAll("_", " ")}`, segment.probability === null ? "" : `, probability of a boundary ${segment.probability.toFixed(2)}`, ` · ${count(segment.turn_ids.length, "turn")} · ${segment.tokens} tokens`),
    segment.last_error && make("p", { class: "warning", dir: "auto" }, `try ${segment.attempts}: ${segment.last_error}`),
    signals.length > 0 && make("details", {}, make("summary", {}, "Signals"), make("dl", {}, signals)),
    make("p", { class: "sources" }, make("a", { href: address(user, "conversation", { turn: segment.turn_ids[0] }) }, "its turns")));
}
