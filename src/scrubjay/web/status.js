// What a memory holds, and what it has cost.

import { call, of } from "./api.js";
import { make, moment, table } from "./dom.js";

const size = (bytes) => (bytes < 1_000_000 ? `${(bytes / 1_000).toFixed(0)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`);

export async function showStatus({ user }) {
  const status = await call(of(user, "status"));
  const facts = [["turns", status.turns.toLocaleString("en")], ["sessions", status.sessions.toLocaleString("en")],
    ["first said", moment(status.first_said_at)], ["last said", moment(status.last_said_at)], ["records", status.records.toLocaleString("en")],
    ["evidence nodes", status.nodes.toLocaleString("en")], ["embedder", status.embedder], ["on disk", size(status.file_bytes)], ["memory id", status.memory_id]];
  const usage = status.usage.map((used) => [used.stage, used.model, ...[used.calls, used.input_tokens, used.output_tokens].map((number) => number.toLocaleString("en"))]);
  return [make("h2", {}, "Status"), table(user, ["what", "is"], facts),
    usage.length ? table("Tokens by stage", ["stage", "model", ">calls", ">in", ">out"], usage) : make("p", { class: "nothing" }, "No model was called for this memory.")];
}
