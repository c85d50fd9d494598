// Tokens of an episode: which were sampled, their figures, their colours, and how to walk along them.
import { h, svg, visible } from "./dom.js";
import { LENSES, scale } from "./colour.js";
import { thin } from "./chart.js";

const FAR = { Infinity: Infinity, "-Infinity": -Infinity };
const number = (value) => (value === null || value === undefined ? NaN : FAR[value] ?? value);

// Returns the columns of a record as arrays, with what follows from them.
export function readTokens(record) {
  const tokens = record.tokens;
  if (!tokens || !tokens.ids.length) return null;
  const column = (name) => (tokens[name] ? tokens[name].map(number) : null);
  const logProbs = column("log_probs");
  const trained = tokens.trained_on;
  const sampled = tokens.ids.map((_, at) => (logProbs ? !Number.isNaN(logProbs[at]) : Boolean(trained && trained[at])));
  return {
    ids: tokens.ids, texts: tokens.texts, turns: tokens.turns || tokens.ids.map(() => 0), trained, sampled,
    versions: tokens.weights_versions,
    columns: Object.fromEntries(LENSES.map((lens) => [lens.name, column(lens.name)])),
  };
}

export function lensesOf(tokens) {
  return tokens ? LENSES.filter((lens) => tokens.columns[lens.name]) : [];
}

// One span per sampled token; `at` is in the data, and one listener above serves them all.
export function tokenSpans(tokens, turn) {
  const spans = [];
  for (let at = 0; at < tokens.ids.length; at++) {
    if (tokens.turns[at] !== turn || !tokens.sampled[at]) continue;
    const text = tokens.texts ? tokens.texts[at] : `#${tokens.ids[at]} `;
    const masked = tokens.trained && !tokens.trained[at];
    spans.push(h("span", { className: `token${masked ? " masked" : ""}`, tabIndex: -1, dataset: { at } },
      text === "" ? h("span", { className: "hidden-char" }, "·") : visible(text)));
  }
  return spans;
}

export function readText(tokens, turn) {
  const read = tokens.ids.map((_, at) => at).filter((at) => tokens.turns[at] === turn && !tokens.sampled[at]);
  return { count: read.length, text: tokens.texts ? read.map((at) => tokens.texts[at]).join("") : null };
}

export function colourise(page, tokens, lens) {
  const numbers = tokens.columns[lens.name].filter((_, at) => tokens.sampled[at]);
  const colour = scale(lens, numbers);
  for (const span of page.querySelectorAll(".token")) {
    span.style.backgroundColor = colour(tokens.columns[lens.name][span.dataset.at]) || "";
  }
}

// Six digits are what float32 is good for; the title has all that were recorded.
const digits = (value) => String(Number.isInteger(value) || typeof value !== "number" ? value : Number(value.toPrecision(6)));

// The panel with the figures, and the curve of the values; both follow hover and focus.
export function inspector(tokens, onpick) {
  const figures = h("dl", { className: "figures", "aria-live": "polite" });
  const curve = valueCurve(tokens, onpick);
  const show = (at) => {
    const pairs = [["token", JSON.stringify(tokens.texts ? tokens.texts[at] : "")], ["id", tokens.ids[at]],
      ...LENSES.filter((lens) => tokens.columns[lens.name]).map((lens) => [lens.label, tokens.columns[lens.name][at], lens.name]),
      ["probability", tokens.columns.log_probs ? Math.exp(tokens.columns.log_probs[at]) : NaN],
      ["trained on", tokens.trained ? (tokens.trained[at] ? "yes" : "no") : "–"],
      ["weights", tokens.versions ? tokens.versions[at] : "–"], ["turn", tokens.turns[at]], ["place", at]];
    figures.replaceChildren(...pairs.map(([label, value, name]) => h("div", {}, h("dt", {}, label),
      h("dd", { dataset: { figure: name || label }, title: String(value) }, ...visible(digits(value))))));
    curve?.mark(at);
  };
  const box = h("aside", { className: "inspector" }, figures, curve ? curve.box : null);
  figures.append(h("div", {}, h("dt", {}, "Point at a token, or walk along them with the arrow keys.")));
  return { box, show };
}

function valueCurve(tokens, onpick) {
  const values = tokens.columns.values;
  if (!values) return null;
  const places = tokens.ids.map((_, at) => at).filter((at) => tokens.sampled[at] && Number.isFinite(values[at]));
  if (places.length < 2) return null;
  const [low, high] = places.reduce(([a, b], at) => [Math.min(a, values[at]), Math.max(b, values[at])], [Infinity, -Infinity]);
  const x = (index) => (index / (places.length - 1)) * 1000;
  const y = (value) => 55 - ((value - low) / (high - low || 1)) * 50;
  const points = thin(places.map((at, index) => [index, values[at]]), 1000);
  const path = points.map(([index, value], at) => `${at ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const cursor = svg("line", { y1: 0, y2: 60, class: "cursor", visibility: "hidden" });
  const picture = svg("svg", { viewBox: "0 0 1000 60", preserveAspectRatio: "none", role: "img",
    "aria-label": `value along the episode, from ${low} to ${high}` });
  let turn = -1;
  places.forEach((at, index) => {
    if (tokens.turns[at] !== turn) picture.append(svg("line", { x1: x(index), x2: x(index), y1: 0, y2: 60, class: "grid" }));
    turn = tokens.turns[at];
  });
  picture.append(svg("path", { d: path, fill: "none", class: "line value" }), cursor);
  picture.addEventListener("click", (event) => {
    const box = picture.getBoundingClientRect();
    onpick(places[Math.round(((event.clientX - box.left) / box.width) * (places.length - 1))]);
  });
  return {
    box: h("figure", { className: "curve" }, h("figcaption", {}, `value, ${low.toPrecision(3)} to ${high.toPrecision(3)}; a line is a turn`), picture),
    mark(at) {
      const index = places.indexOf(at);
      cursor.setAttribute("visibility", index < 0 ? "hidden" : "visible");
      cursor.setAttribute("x1", x(index));
      cursor.setAttribute("x2", x(index));
    },
  };
}

// Hover shows, focus stays; the arrows walk along the sampled tokens of the whole episode.
export function walk(page, show) {
  const spans = [...page.querySelectorAll(".token")];
  if (!spans.length) return () => {};
  const place = new Map(spans.map((span, index) => [span, index]));
  let current = spans[0];
  current.tabIndex = 0;
  const token = (event) => (event.target instanceof Element ? event.target.closest(".token") : null);
  const focus = (span) => {
    current.tabIndex = -1;
    current = span;
    current.tabIndex = 0;
    current.focus();
  };
  page.addEventListener("pointerover", (event) => { const span = token(event); if (span) show(Number(span.dataset.at)); });
  page.addEventListener("focusin", (event) => { const span = token(event); if (span) show(Number(span.dataset.at)); });
  page.addEventListener("click", (event) => { const span = token(event); if (span) focus(span); });
  page.addEventListener("keydown", (event) => {
    const span = token(event);
    if (!span) return;
    const at = place.get(span);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: spans.length - 1 }[event.key];
    if (to === undefined || !spans[to]) return;
    event.preventDefault();
    focus(spans[to]);
  });
  return (at) => { const span = spans.find((each) => Number(each.dataset.at) === at); if (span) focus(span); };
}
