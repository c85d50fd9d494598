// Episodes: a list to filter and search; the filters are in the address, so it can be shared.
import { h, select, short } from "./dom.js";
import { address, backend, store } from "./source.js";
import { virtualList } from "./virtual.js";

const NUMBERS = [["turns", "turns"], ["reward", "return"], ["iteration", "iteration"]];
let found = { words: "", keys: null };

export function outcome(row) {
  return h("span", { className: `badge ${row.success ? "won" : ""}` }, row.success ? `✓ ${row.stop}` : row.stop);
}

// Whether a row passes the filters, which are texts by name.
export function passes(row, filters) {
  for (const name of ["env", "stop", "split", "label", "source", "group", "policy"]) {
    if (filters[name] && String(row[name]) !== filters[name]) return false;
  }
  if (filters.success && String(row.success) !== filters.success) return false;
  for (const [name] of NUMBERS) {
    const [least, most] = [filters[`${name}_min`], filters[`${name}_max`]];
    if (least && !(row[name] !== null && row[name] >= Number(least))) return false;
    if (most && !(row[name] !== null && row[name] <= Number(most))) return false;
  }
  return true;
}

const ORDERS = {
  file: null,
  "return": (a, b) => (b.reward ?? -Infinity) - (a.reward ?? -Infinity),
  turns: (a, b) => b.turns - a.turns,
  tokens: (a, b) => b.tokens - a.tokens,
  unusable: (a, b) => b.invalid - a.invalid,
};

export function chosen(filters) {
  let rows = store.episodes.filter((row) => passes(row, filters));
  if (filters.words && found.words === filters.words && found.keys) rows = rows.filter((row) => found.keys.has(address(row)));
  const order = ORDERS[filters.order];
  return order ? [...rows].sort(order) : rows;
}

export function episodesView(filters, navigate) {
  const list = virtualList(44, line, (row) => navigate(`#/episode/${address(row)}`), "episodes");
  const count = h("output", { className: "count" });
  const draw = () => {
    const rows = chosen(filters);
    list.set(rows);
    const won = rows.filter((row) => row.success).length;
    count.textContent = `${rows.length.toLocaleString("en")} of ${store.episodes.length.toLocaleString("en")} episodes`
      + (rows.length ? `, ${short((100 * won) / rows.length)} % won` : "");
  };
  const change = (name, value) => {
    if (value) filters[name] = value;
    else delete filters[name];
    history.replaceState(null, "", `#/episodes?${new URLSearchParams(filters)}`);
    draw();
  };
  const page = h("section", { className: "episodes" }, h("h1", {}, "Episodes"),
    bar(filters, change, draw), count, problems(), heads(), list.box);
  page.redraw = draw;
  requestAnimationFrame(draw);
  if (filters.words) search(filters.words).then(draw);
  return page;
}

function bar(filters, change, draw) {
  const words = h("input", { type: "search", id: "search", value: filters.words || "", placeholder: "words in the text",
    onchange: async () => {
      await search(words.value);
      change("words", words.value);
    } });
  const among = (name, label) => {
    const values = [...new Set(store.episodes.map((row) => row[name]).filter((value) => value !== null))];
    if (values.length < 2) return null;
    const text = (value) => (name === "source" ? store.sources[value].name : String(value));
    return select(label, [["", "any"], ...values.map((value) => [String(value), text(value)])], filters[name] || "",
      (value) => change(name, value));
  };
  const between = ([name, label]) => h("fieldset", { className: "field" }, h("legend", {}, label),
    ["min", "max"].map((end) => h("input", { type: "number", step: "any", value: filters[`${name}_${end}`] || "",
      "aria-label": `${label} ${end}`, placeholder: end, oninput: (event) => change(`${name}_${end}`, event.target.value) })));
  return h("form", { className: "tools", onsubmit: (event) => event.preventDefault() },
    h("label", { className: "field" }, h("span", {}, "search"), words),
    among("source", "run"), among("env", "environment"), among("label", "file"), among("split", "split"),
    among("policy", "policy"), among("stop", "stopped by"),
    select("won", [["", "any"], ["true", "yes"], ["false", "no"]], filters.success || "", (value) => change("success", value)),
    h("details", { className: "field" }, h("summary", {}, "more"), NUMBERS.map(between)),
    select("order", Object.keys(ORDERS).map((name) => [name, name]), filters.order || "file", (value) => change("order", value)));
}

async function search(words) {
  found = { words, keys: null };
  if (!words) return;
  const keys = await backend.search(words);
  if (found.words === words) found.keys = new Set(keys.map((key) => key.join("/")));
}

function problems() {
  if (!store.problems.length) return null;
  return h("details", { className: "warning" }, h("summary", {}, `${store.problems.length} lines are no episodes`),
    h("ul", {}, store.problems.map((problem) => h("li", {}, problem))));
}

// What the columns of ``line`` are.
function heads() {
  return h("div", { className: "heads quiet", "aria-hidden": "true" },
    h("span", { className: "place" }, "file"), h("span", { className: "badge" }, "ended"),
    h("span", { className: "number" }, "return"), h("span", { className: "number quiet" }, "turns"),
    h("span", { className: "env" }, "environment"), h("span", {}, "text"));
}

function line(row) {
  return h("a", { className: "row", href: `#/episode/${address(row)}`, tabIndex: -1 },
    h("span", { className: "place", title: row.label }, row.label),
    outcome(row),
    h("span", { className: "number", title: "return" }, short(row.reward)),
    h("span", { className: "number quiet", title: "turns" }, `${row.turns} turn${row.turns === 1 ? "" : "s"}`),
    h("span", { className: "quiet env" }, row.env || ""),
    h("span", { className: "snippet", dir: "auto" }, row.snippet));
}
