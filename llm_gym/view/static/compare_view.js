// The same instance twice, side by side, with the first difference marked.
import { h, prose, short, visible } from "./dom.js";
import { address, backend, find, store } from "./source.js";
import { outcome } from "./episodes_view.js";

// Texts of an episode in order, and where two such lists part: {part, at}, or null.
export function firstDifference(one, other) {
  const parts = Math.max(one.length, other.length);
  for (let part = 0; part < parts; part++) {
    const [a, b] = [one[part] ?? "", other[part] ?? ""];
    if (a === b && one[part] !== undefined && other[part] !== undefined) continue;
    let at = 0;
    while (at < a.length && at < b.length && a[at] === b[at]) at++;
    return { part, at };
  }
  return null;
}

export const textsOf = (record) => {
  const texts = [];
  record.actions.forEach((action, turn) => texts.push(record.states[turn] ?? "", action));
  if (record.states.length > record.actions.length) texts.push(record.states.at(-1));
  return texts;
};

export async function compareView(keys) {
  const rows = keys.map((key) => find(...key));
  if (rows.some((row) => !row)) throw new Error("there is no such episode");
  const records = await Promise.all(keys.map((key) => backend.episode(...key)));
  const texts = records.map(textsOf);
  const difference = firstDifference(...texts);
  const columns = rows.map((row, side) => h("div", { className: "side" },
    h("h2", {}, h("a", { href: `#/episode/${address(row)}` }, `${store.sources[row.source].name} ${row.label}`), " ", outcome(row)),
    h("p", { className: "quiet" }, `return ${short(row.reward)}, ${row.turns} turn${row.turns === 1 ? "" : "s"}, iteration ${row.iteration ?? "–"}`),
    texts[side].map((text, part) => h("article", { className: part % 2 ? "wrote" : "read" }, body(text, part, difference)))));
  const said = difference
    ? `They differ first ${difference.part % 2 ? `in the reply of turn ${(difference.part - 1) / 2}` : `in what was read before turn ${difference.part / 2}`}, at character ${difference.at}.`
    : "They are the same.";
  const page = h("section", { className: "compare" }, h("h1", {}, `${rows[0].env} seed ${rows[0].seed ?? "–"}`),
    h("p", { className: "verdict" }, said, " ", difference
      ? h("button", { onclick: () => page.querySelector("mark").scrollIntoView({ block: "center" }) }, "go there") : null), h("div", { className: "sides" }, columns));
  return page;
}

function body(text, part, difference) {
  if (!difference || part !== difference.part) return prose(text, part > (difference ? difference.part : Infinity) ? "after" : "");
  return h("div", { className: "prose", dir: "auto" }, ...visible(text.slice(0, difference.at)),
    h("mark", {}, ...(text.length > difference.at ? visible(text.slice(difference.at)) : ["(ends here)"])));
}
