// What encoding made of the conversation: records with their turns, and the nodes they are found by.

import { call, of, query } from "./api.js";
import { count, field, make, table, words } from "./dom.js";

const TYPES = ["fact", "preference", "event", "constraint", "procedure", "failure_pattern", "tool_affordance"];
const KINDS = { entity: "Entities", day: "Days", month: "Months", topic: "Topics", entity_topic: "Entities and topics", event_frame: "Event frames" };

export async function showRecords({ user, options, address, run }) {
  const list = make("ul", { class: "cards wide" });
  const more = make("button", { type: "button", class: "second", click: () => run(more, load) }, "More records");
  let after = null;
  async function load() {
    const page = await call(query(of(user, "records"), { type: options.type, kind: options.kind, key: options.key, session_id: options.session, after, limit: 100 }));
    list.append(...page.records.map((record) => recordItem(record, user, address)));
    after = page.next;
    more.hidden = page.next === null;
  }
  await load();
  const type = make("select", { change: () => { location.hash = address(user, "records", { ...options, type: type.value }); } },
    make("option", { value: "" }, "any"), TYPES.map((name) => make("option", { value: name, selected: name === options.type }, name.replaceAll("_", " "))));
  const only = options.key && make("p", {}, "Only of ", make("b", { dir: "auto" }, options.key), " · ", make("a", { href: address(user, "records") }, "all records"));
  return [make("h2", {}, "Records"), make("div", { class: "fields" }, field("Type", type)), only,
    list.children.length ? list : make("p", { class: "nothing" }, options.type || options.key || options.session ? "No such records." : "No records yet.", " A model makes them of closed ", make("a", { href: address(user, "segments") }, "segments"), "."), more].filter(Boolean);
}

function recordItem(record, user, address) {
  const turns = record.turn_ids.flatMap((id) => [make("a", { href: address(user, "conversation", { turn: id }) }, id), " "]);
  const entities = record.entities.flatMap((name) => [make("span", { class: "chip", dir: "auto" }, name), " "]);
  const when = [record.t_valid_from ?? record.t_ref, record.t_valid_to].filter(Boolean).join(" to ");
  return make("li", { class: `card record ${record.supported ? "" : "unsupported"}` },
    make("header", {}, make("span", { class: "kind" }, record.type.replaceAll("_", " ")), when && make("time", {}, when), make("span", {}, record.stance)),
    words(record.text), make("p", {}, entities), make("p", { class: "sources" }, "from ", turns),
    !record.supported && make("p", { class: "warning" }, `Not supported: ${record.support_reason}`));
}

export async function showNodes({ user, options, address }) {
  const kind = options.kind in KINDS ? options.kind : "entity";
  const { nodes } = await call(query(of(user, "nodes"), { kind }));
  const tabs = Object.entries(KINDS).map(([name, title]) => make("a", { class: "chip", href: address(user, "nodes", { kind: name }), "aria-current": name === kind ? "true" : undefined }, title));
  const ordered = ["day", "month"].includes(kind) ? nodes : [...nodes].sort((one, other) => other.records - one.records);
  const rows = ordered.map((node) => [make("a", { href: address(user, "records", { kind, key: node.key }), dir: "auto" }, node.key), String(node.records)]);
  return [make("h2", {}, "Entities and dates"), make("p", { class: "chips" }, tabs),
    rows.length ? table(`${count(rows.length, "node")}: ${KINDS[kind].toLowerCase()}`, [KINDS[kind], ">records"], rows) : make("p", { class: "nothing" }, "None yet. A model makes them of closed ", make("a", { href: address(user, "segments") }, "segments"), ".")];
}
