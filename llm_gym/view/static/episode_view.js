// One episode as a conversation, with the figures of every token that was sampled.
import { h, prose, select, short } from "./dom.js";
import { address, backend, find, sameInstance, store } from "./source.js";
import { chosen, outcome } from "./episodes_view.js";
import { colourise, inspector, lensesOf, readText, readTokens, tokenSpans, walk } from "./tokens.js";
import { playPanel } from "./play.js";

let lensName = "advantages";

export async function episodeView(source, file, line, filters, navigate) {
  const row = find(source, file, line);
  if (!row) throw new Error("there is no such episode");
  const record = await backend.episode(source, file, line);
  const tokens = readTokens(record);
  const lenses = lensesOf(tokens);
  const talk = h("div", { className: "talk" }, conversation(record, tokens, row));
  const page = h("section", { className: "episode" }, head(row, record), episodeTools(row, lenses, (name) => paint(name)), talk);
  function paint(name) {
    lensName = name;
    explain(page.querySelector(".key"), lenses.find((lens) => lens.name === name));
    colourise(page, tokens, lenses.find((lens) => lens.name === name));
  }
  if (tokens) {
    let pick = () => {};
    const panel = inspector(tokens, (at) => pick(at));
    page.append(panel.box);
    pick = walk(talk, panel.show);
    if (lenses.length) paint((lenses.find((lens) => lens.name === lensName) || lenses[0]).name);
  }
  const rows = chosen(filters);
  const here = rows.indexOf(row);
  page.step = (by) => { if (rows[here + by]) navigate(`#/episode/${address(rows[here + by])}`); };
  page.querySelector(".steps").append(
    h("button", { disabled: here <= 0, onclick: () => page.step(-1) }, "← previous (p)"),
    h("button", { disabled: here < 0 || here >= rows.length - 1, onclick: () => page.step(1) }, "next (n) →"));
  return page;
}

function head(row, record) {
  const facts = [["return", short(row.reward)], ["turns", row.turns], ["tokens", row.tokens || "–"], ["seed", row.seed ?? "–"],
    ["split", row.split ?? "–"], ["group", row.group ?? "–"], ["iteration", row.iteration ?? "–"],
    ["weights", row.version ?? "–"], ["policy", row.policy ?? "–"], ["unusable", row.invalid]];
  return h("div", {}, h("div", { className: "steps" }, h("a", { href: "#/episodes" }, "all episodes")),
    h("h1", {}, record.env_id || "episode", " ", outcome(row)),
    h("p", { className: "quiet" }, `${store.sources[row.source].name} / ${row.label}, line ${row.line}`),
    h("dl", { className: "facts" }, facts.filter(([, value]) => value !== "–").map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, String(value))))));
}

function episodeTools(row, lenses, paint) {
  const others = sameInstance(row);
  const chosenLens = lenses.find((lens) => lens.name === lensName) || lenses[0];
  const bar = h("div", { className: "tools" });
  if (lenses.length) {
    bar.append(select("colour by", lenses.map((lens) => [lens.name, lens.label]), chosenLens.name, paint),
      h("span", { className: "key" }));
  }
  if (others.length) {
    bar.append(select("beside", [["", "the same instance…"], ...others.slice(0, 200).map((other) => [address(other),
      `${store.sources[other.source].name} ${other.label}: ${other.stop}`])], "", (key) => { if (key) location.hash = `#/compare/${address(row)}/${key}`; }));
  }
  return bar;
}

function explain(box, lens) {
  const key = (name, text) => [h("i", { className: name }), ` ${text} `];
  box.replaceChildren(...(lens.low ? key("above", "darker is less likely")
    : [...key("below", `below ${lens.middle}`), ...key("above", `above ${lens.middle}`)]), `(${lens.about})`);
}

function conversation(record, tokens, row) {
  const parts = [];
  const system = record.messages.find((message) => message.role === "system");
  if (system) parts.push(h("details", { className: "system" }, h("summary", {}, "system prompt"), prose(String(system.content))));
  record.actions.forEach((action, turn) => {
    const info = record.infos[turn] || {};
    if (record.states[turn] !== undefined) parts.push(observation(record, tokens, turn));
    parts.push(reply(record, tokens, turn, action, info, row));
  });
  if (record.states.length > record.actions.length) parts.push(observation(record, tokens, record.actions.length));
  return parts;
}

function observation(record, tokens, turn) {
  const called = turn > 0 && callsOf(record.infos[turn - 1] || {});
  const read = tokens ? readText(tokens, turn) : null;
  const note = read?.count ? `read, not trained on (${read.count} tokens)` : "read";
  const text = prose(record.states[turn]);
  return h("article", { className: "read" }, h("header", {}, h("span", { className: "who" }, called ? "tool" : "environment"), h("span", { className: "quiet" }, note)),
    called ? h("details", {}, h("summary", {}, "result of the tool"), text) : text,
    read?.text ? h("details", {}, h("summary", {}, "as the model read it"), prose(read.text, "mono")) : null);
}

function reply(record, tokens, turn, action, info, row) {
  const spans = tokens ? tokenSpans(tokens, turn) : [];
  const calls = callsOf(info);
  const said = spans.length
    ? h("div", { className: "prose sampled", dir: "auto" }, spans)
    : prose(action, "sampled");
  const asText = spans.length && !tokens.texts ? prose(action) : null;
  return h("article", { className: "wrote", id: `turn-${turn}` },
    h("header", {}, h("span", { className: "who" }, `turn ${turn}`), terms(record, turn, info),
      info.valid_action === false ? h("span", { className: "badge bad" }, "unusable") : null),
    asText, said,
    calls ? h("details", {}, h("summary", {}, "tool call"), prose(JSON.stringify(calls, null, 1), "mono")) : null,
    h("details", {}, h("summary", {}, "info"), prose(JSON.stringify(info, null, 1), "mono")),
    backend.play && record.env_spec ? playPanel(row, turn) : null);
}

// What tools were called in a turn: a list, or the one of a tool outside the environment.
function callsOf(info) {
  const calls = info.tool_calls ?? info.tool_call;
  return Array.isArray(calls) && !calls.length ? null : calls || null;
}

function terms(record, turn, info) {
  const parts = Object.entries(info.reward_terms || {}).filter(([, value]) => value !== 0);
  return h("span", { className: "reward" }, `reward ${short(record.rewards[turn] ?? null)}`,
    parts.map(([name, value]) => h("span", { className: "term" }, `${name} ${short(value)}`)));
}
