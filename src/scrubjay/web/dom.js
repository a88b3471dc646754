// Making elements. Whatever comes from a conversation enters the page as text, never as HTML.

/** Make an element with attributes (functions are listeners) and children: elements, text, or nothing. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") element.addEventListener(key, value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Make a block of somebody's words, in whichever direction they are written. */
export const words = (text, attributes = {}) => make("p", { class: "words", dir: "auto", ...attributes }, text);

/** Keep somebody's text from turning the direction of what stands around it, where no element can. */
export const apart = (text) => `\u2068${text}\u2069`;

/** Make a table with a caption; a heading that begins with ">" stands over numbers. */
export function table(caption, headings, rows) {
  const isNumber = headings.map((heading) => heading.startsWith(">"));
  const head = headings.map((heading, place) =>
    make("th", { scope: "col", class: isNumber[place] && "number" }, heading.replace(/^>/, "")));
  const body = rows.map((row) => make("tr", {}, row.map((cell, place) =>
    make("td", { class: isNumber[place] && "number", dir: isNumber[place] ? undefined : "auto" }, cell))));
  return make("div", { class: "scrolled" },
    make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, head)), make("tbody", {}, body)));
}

export const field = (label, input) => make("label", { class: "field" }, make("span", {}, label), input);

export const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;

export const count = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

/** Show a moment as it was said there: its own offset, not the reader's. */
export function moment(text, { day = false } = {}) {
  if (!text) return "no time";
  const [, date, time, zone] = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)[^+\-Z]*(.*)$/.exec(text) ?? [null, text, "", ""];
  const weekday = new Date(`${date}T12:00:00Z`).toLocaleDateString("en", { weekday: "short", timeZone: "UTC" });
  const zoneText = zone === "Z" || zone === "+00:00" ? "UTC" : zone;
  return day ? `${weekday} ${date}` : `${weekday} ${date} ${time} ${zoneText}`.trim();
}

/** Make the panel that hover and focus bring: the reason, and the rank and score in every channel. */
export function why(reason, channels, more = []) {
  return make("div", { class: "why", role: "note" }, make("p", {}, reason),
    make("dl", {}, [
      ...Object.entries(channels).map(([name, channel]) => [name, `rank ${channel.rank}, ${channel.score.toFixed(3)}`]),
      ...more.filter(([, value]) => value),
    ].map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", { dir: "auto" }, value)))));
}
