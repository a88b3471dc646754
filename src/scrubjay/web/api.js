// Asking the server under /v1. The page speaks to nobody else; the server's content security policy holds it to that.

const KEY = "scrubjay-key";

/** What the server answered instead of what was asked for. */
export class Problem extends Error {
  constructor(status, document) {
    super(document.detail ?? document.title ?? `the server answered ${status}`);
    this.status = status;
    this.code = document.code ?? "";
  }
}

/** Ask for a key, once however many requests wait for it. */
let asking = null;
function askForKey() {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("key-dialog");
    dialog.addEventListener("close", () => {
      const input = document.getElementById("key");
      const given = dialog.returnValue === "use" && input.value.trim();
      if (given) sessionStorage.setItem(KEY, given);
      input.value = "";
      asking = null;
      resolve(Boolean(given));
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

async function send(path, { method = "GET", body, accept = "application/json", signal } = {}) {
  const headers = { Accept: accept };
  const key = sessionStorage.getItem(KEY);
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let reply;
  try {
    reply = await fetch(`v1/${path}`, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "the server doesn't answer: is it still running?" });
  }
  if (reply.status === 401 && (await askForKey())) return send(path, { method, body, accept, signal });
  if (!reply.ok) throw new Problem(reply.status, await reply.json().catch(() => ({})));
  return reply;
}

export const call = async (path, options) => (await send(path, options)).json();

/** The path of something in a user's memory. */
export const of = (user, rest) => `users/${encodeURIComponent(user)}/${rest}`;

/** Give path and query, without what isn't asked for. */
export function query(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

/** Give the events of a stream as [name, document], as they come. */
export async function* events(path, options) {
  const reply = await send(path, { ...options, accept: "text/event-stream" });
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const lines = Object.fromEntries(part.split("\n").map((line) => line.split(/: (.*)/s)));
      yield [lines.event, JSON.parse(lines.data)];
    }
  }
}
