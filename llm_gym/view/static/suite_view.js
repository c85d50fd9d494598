// Suite: who wins how often where, as a heat map; published players beside what was recorded.
import { h, short } from "./dom.js";
import { heat } from "./colour.js";
import { backend, store } from "./source.js";

let everything = false;

export async function suiteView() {
  const published = await backend.suite();
  const page = h("section", { className: "suite" });
  const draw = () => page.replaceChildren(h("h1", {}, "Suite"), h("p", { className: "quiet" },
    "Share of episodes won. Random, solver and oracle are published with llm-gym; the others are the records of this page, without training episodes."),
  h("label", { className: "field" }, h("input", { type: "checkbox", checked: everything,
    onchange: (event) => { everything = event.target.checked; draw(); } }), " every environment"), table(published));
  draw();
  return page;
}

// [column, environment] → {won, all}, of every row that was not trained on.
export function recorded(rows, sources) {
  const cells = new Map();
  for (const row of rows) {
    if (!row.env || row.label.startsWith("train-")) continue;
    const column = [sources[row.source].name, row.policy || row.label].join(" · ");
    if (!cells.has(column)) cells.set(column, new Map());
    const cell = cells.get(column).get(row.env) || { won: 0, all: 0 };
    cell.won += row.success;
    cell.all += 1;
    cells.get(column).set(row.env, cell);
  }
  return cells;
}

function table(published) {
  const cells = recorded(store.episodes, store.sources);
  const own = new Set([...cells.values()].flatMap((column) => [...column.keys()]));
  const rows = [...new Set([...own, ...(everything || !own.size ? Object.keys(published) : [])])];
  const players = ["random", "solver", "oracle"];
  return h("div", { className: "wide" }, h("table", { className: "heat" },
    h("thead", {}, h("tr", {}, h("th", {}, "environment"), [...players, ...cells.keys()].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows.map((env) => h("tr", {}, h("th", { scope: "row" }, env),
      players.map((player) => cellOf(published[env]?.[player])),
      [...cells.values()].map((column) => { const cell = column.get(env); return cellOf(cell && [cell.won / cell.all, null, null, cell.all]); }))))));
}

function cellOf(score) {
  if (!score) return h("td", { className: "quiet" }, "–");
  const [success, low, high, episodes] = score;
  const range = low === null ? "" : `, 95 % interval ${short(100 * low)} to ${short(100 * high)} %`;
  return h("td", { style: { backgroundColor: heat(success) }, title: `${short(episodes)} episodes${range}` }, `${(100 * success).toFixed(0)} %`);
}
