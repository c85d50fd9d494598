// Groups: the episodes of one start beside each other, as a group-relative estimator compares them.
import { h, prose, short } from "./dom.js";
import { address, backend, store } from "./source.js";
import { outcome } from "./episodes_view.js";
import { virtualList } from "./virtual.js";

const MOST = 32;

export function groupsOf(rows) {
  const groups = new Map();
  for (const row of rows) {
    const start = row.group !== null ? `g${row.group}` : row.seed !== null ? `s${row.env} ${row.split} ${row.seed}` : null;
    if (start === null) continue;
    const key = `${row.source}/${row.file}/${start}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(row);
  }
  return [...groups].filter(([, members]) => members.length > 1).map(([key, members]) => ({ key, members }));
}

export function groupsView(navigate) {
  const groups = groupsOf(store.episodes);
  if (!groups.length) {
    return h("section", {}, h("h1", {}, "Groups"), h("p", {}, "No two episodes of a file began alike. Training with group_size above 1 records groups."));
  }
  const open = (group) => navigate(`#/group/${encodeURIComponent(group.key)}`);
  const list = virtualList(44, (group) => h("a", { className: "row", href: `#/group/${encodeURIComponent(group.key)}`, tabIndex: -1 },
    h("span", { className: "place" }, group.members[0].label), h("span", {}, `${group.members.length} episodes`),
    h("span", { className: "dots", "aria-label": `${group.members.filter((row) => row.success).length} won` },
      group.members.map((row) => (row.success ? "●" : "○")).join("")),
    h("span", { className: "quiet" }, `return ${spread(group.members)}`),
    h("span", { className: "quiet env" }, group.members[0].env || "")), open, "groups");
  const page = h("section", { className: "episodes" }, h("h1", {}, "Groups"), h("output", { className: "count" }, `${groups.length} groups`), list.box);
  requestAnimationFrame(() => list.set(groups));
  return page;
}

function spread(members) {
  const returns = members.map((row) => row.reward).filter((value) => value !== null);
  return returns.length ? `${short(Math.min(...returns))} to ${short(Math.max(...returns))}` : "–";
}

export async function groupView(key) {
  const group = groupsOf(store.episodes).find((each) => each.key === key);
  if (!group) throw new Error("there is no such group");
  const members = group.members.slice(0, MOST);
  const records = await Promise.all(members.map((row) => backend.episode(row.source, row.file, row.line)));
  const mean = members.reduce((sum, row) => sum + (row.reward || 0), 0) / members.length;
  return h("section", { className: "compare" }, h("h1", {}, `${members[0].label}: ${group.members.length} episodes of one start`),
    h("p", { className: "quiet" }, `mean return ${short(mean)}`),
    h("details", { open: true }, h("summary", {}, "all of them began with"), prose(records[0].states[0] || "")),
    h("div", { className: "sides" }, members.map((row, at) => h("div", { className: "side" },
      h("h2", {}, h("a", { href: `#/episode/${address(row)}` }, `#${at + 1}`), " ", outcome(row)),
      h("p", { className: "quiet" }, `return ${short(row.reward)} (${row.reward >= mean ? "+" : ""}${short(row.reward - mean)} to the mean), ${row.turns} turn${row.turns === 1 ? "" : "s"}`),
      h("ol", { start: 0 }, records[at].actions.map((action, turn) => h("li", {}, prose(action, "sampled"),
        h("span", { className: "quiet" }, `reward ${short(records[at].rewards[turn] ?? null)}`))))))));
}
