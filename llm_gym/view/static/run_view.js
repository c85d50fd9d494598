// Run: the curves of every run over each other, their settings, and where those differ.
import { h, select, short, svg } from "./dom.js";
import { lineOf } from "./colour.js";
import { chart } from "./chart.js";
import { store } from "./source.js";

const FIRST = [
  ["eval/success", "held-out episodes won"], ["episode/success", "training episodes won"],
  ["reward/mean", "return"], ["eval/return", "held-out return"], ["policy/kl", "old to new policy"],
  ["kl/reference", "to the reference"], ["policy/entropy", "nats per token"],
  ["value/explained_variance", "of the critic"], ["episode/turns", ""],
  ["episode/tokens", "per episode"], ["episode/truncated_replies", "replies cut"], ["episode/invalid", "unusable replies"],
  ["time/collect_s", "playing"], ["time/score_s", "scoring"], ["time/update_s", "all but playing"],
  ["time/publish_s", "weights to the engine"], ["time/tokens_per_s", ""],
  ["mismatch/kl", "sampler against trainer"], ["mismatch/ratio_max", "sampler against trainer"],
  ["engine/probe_gap", "engine against trainer"], ["gpu/memory_peak_gib", ""], ["gpu/mfu", "of the peak"],
];

const state = { smoothing: 0, log: false, range: null, axis: "iteration", all: false, hidden: new Set() };

export function runView() {
  const page = h("section", { className: "run" });
  const draw = () => page.replaceChildren(...parts(draw).filter(Boolean));
  draw();
  // What is new while training: the curves alone, so that nobody loses a slider or an open table.
  page.redraw = () => {
    const old = [page.querySelector(".legend"), page.querySelector(".charts")];
    if (!old[1] || page.querySelector(".cursor[visibility=visible]")) return old[1] ? null : draw();
    const shown = withRows();
    old[0].replaceWith(legend(shown, draw));
    old[1].replaceWith(charts(visibleOf(shown), draw));
    return null;
  };
  return page;
}

function withRows() {
  return store.sources.map((source, run) => ({ ...source, run, rows: (store.metrics[run] || { rows: [] }).rows }))
    .filter((source) => source.rows.length);
}

const visibleOf = (shown) => shown.filter((source) => !state.hidden.has(source.run));

function parts(draw) {
  const shown = withRows();
  if (!shown.length) {
    return [h("h1", {}, "Run"), h("p", {}, store.sources.some((source) => source.is_run)
      ? "No iteration is finished yet. This page looks again every two seconds."
      : "These are records without a run's metrics. See Episodes."), settings()];
  }
  return [h("h1", {}, shown.map((source) => source.name).join(", ")), legend(shown, draw), tools(draw),
    charts(visibleOf(shown), draw), settings()];
}

function legend(shown, draw) {
  return h("ul", { className: "legend" }, shown.map((source) => {
    const line = svg("svg", { viewBox: "0 0 30 8", "aria-hidden": "true" }, svg("path", { d: "M0 4H30", ...lineOf(source.run) }));
    const last = source.rows.at(-1);
    return h("li", {}, h("label", {}, h("input", { type: "checkbox", checked: !state.hidden.has(source.run),
      onchange: (event) => { state.hidden[event.target.checked ? "delete" : "add"](source.run); draw(); } }),
    line, ` ${source.name}`), h("span", { className: "quiet" }, ` iteration ${short(last.iteration)}`));
  }));
}

function tools(draw) {
  const slider = h("input", { type: "range", min: "0", max: "0.95", step: "0.05", value: String(state.smoothing),
    onchange: () => { state.smoothing = Number(slider.value); draw(); } });
  const tick = (name, label) => h("label", { className: "field" }, h("input", { type: "checkbox", checked: state[name],
    onchange: (event) => { state[name] = event.target.checked; draw(); } }), ` ${label}`);
  return h("div", { className: "tools" },
    h("label", { className: "field" }, h("span", {}, "smoothing"), slider),
    select("along", [["iteration", "iterations"], ["time/elapsed_s", "seconds"]], state.axis, (axis) => {
      Object.assign(state, { axis, range: null });
      draw();
    }),
    tick("log", "log axis"), tick("all", "every metric"),
    state.range ? h("button", { onclick: () => { state.range = null; draw(); } }, "whole range") : null,
    h("span", { className: "quiet" }, "drag to zoom, double click or Escape to see all"));
}

function charts(shown, draw) {
  const known = new Set(shown.flatMap((source) => source.rows.flatMap(Object.keys)));
  const about = new Map(FIRST);
  const first = FIRST.map(([name]) => name).filter((name) => known.has(name));
  const rest = [...known].filter((name) => !about.has(name) && name !== "iteration").sort();
  const zoom = (range) => { state.range = range; draw(); };
  const one = (name) => chart(name, about.get(name), shown.map((source) => ({
    name: shown.length > 1 ? source.name : "", run: source.run,
    points: source.rows.filter((row) => name in row && state.axis in row).map((row) => [row[state.axis], row[name]]),
  })), state, zoom);
  const warm = shown.filter((source) => source.warm_start.length).map((source) => ({ name: shown.length > 1 ? source.name : "",
    run: source.run, points: source.warm_start.map((row) => [row.step, row.loss]) }));
  const before = warm.length ? chart("warm start", "loss of imitation, by step, before the RL", warm, { ...state, range: null }, () => {}) : null;
  return h("div", { className: "charts" }, before, (state.all ? [...first, ...rest] : first).map(one));
}

function settings() {
  const sources = store.sources.filter((source) => Object.keys(source.config).length);
  if (!sources.length) return null;
  const names = [...new Set(sources.flatMap((source) => Object.keys(source.config)))];
  const text = (source, name) => (name in source.config ? JSON.stringify(source.config[name]) : "–");
  const differs = (name) => new Set(sources.map((source) => text(source, name))).size > 1;
  const table = (chosen) => h("div", { className: "wide" }, h("table", {},
    h("thead", {}, h("tr", {}, h("th", {}, "setting"), sources.map((source) => h("th", {}, source.name)))),
    h("tbody", {}, chosen.map((name) => h("tr", { className: differs(name) ? "differs" : "" },
      h("th", { scope: "row" }, name), sources.map((source) => h("td", {}, h("code", {}, text(source, name)))))))));
  const different = names.filter(differs);
  return h("div", {},
    sources.length > 1 ? h("details", { open: true }, h("summary", {}, `${different.length} settings differ`), table(different)) : null,
    h("details", {}, h("summary", {}, `all ${names.length} settings`), table(names)));
}
