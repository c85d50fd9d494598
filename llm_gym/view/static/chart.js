// A line chart in SVG: several runs over each other, smoothing, log axis, zoom by dragging.
import { h, short, svg } from "./dom.js";
import { lineOf } from "./colour.js";

const WIDTH = 360;
const HEIGHT = 170;
const LEFT = 46;
const BOTTOM = 20;
const TOP = 8;
const POINTS = 600;

// An exponential mean that does not lean towards its beginning.
export function smooth(points, amount) {
  if (!amount) return points;
  let mean = 0;
  let weight = 0;
  return points.map(([x, y]) => {
    mean = amount * mean + (1 - amount) * y;
    weight = amount * weight + (1 - amount);
    return [x, mean / weight];
  });
}

// As many points as can be seen: the least and the most of each stretch, so that no spike is lost.
export function thin(points, count = POINTS) {
  if (points.length <= count) return points;
  const kept = [];
  const step = (points.length / count) * 2;
  for (let from = 0; from < points.length; from += step) {
    const part = points.slice(Math.floor(from), Math.floor(from + step));
    if (!part.length) continue;
    const low = part.reduce((a, b) => (b[1] < a[1] ? b : a));
    const high = part.reduce((a, b) => (b[1] > a[1] ? b : a));
    kept.push(...(low === high ? [low] : low[0] < high[0] ? [low, high] : [high, low]));
  }
  return kept;
}

function ticks(low, high, log) {
  if (log) {
    const found = [];
    for (let power = Math.ceil(Math.log10(low)); power <= Math.log10(high); power++) found.push(10 ** power);
    return found.length >= 2 ? found : [low, high];
  }
  const rough = (high - low) / 5;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((by) => by * size).find((by) => by >= rough);
  const found = [];
  // By multiples: a sum of steps misses 0 by a little, and a label would say so.
  for (let n = Math.ceil(low / step); n * step <= high + step * 1e-9; n++) found.push(Number((n * step).toPrecision(12)) + 0);
  return found;
}

// lines: [{name, points, run}] ; view: {smoothing, log, range}; onzoom gets [from, to] or null.
export function chart(title, about, lines, view, onzoom) {
  const [from, to] = view.range || extent(lines.flatMap((line) => [line.points[0], line.points.at(-1)].filter(Boolean).map(([x]) => x)));
  const drawn = lines.map((line) => ({
    ...line,
    points: smooth(line.points, view.smoothing).filter(([x, y]) => x >= from && x <= to && (!view.log || y > 0)),
  }));
  const [low, high] = extent(drawn.flatMap((line) => line.points.map(([, y]) => y)), true);
  const y = scaleOf(low, high, HEIGHT - BOTTOM, TOP, view.log);
  const x = scaleOf(from, to === from ? from + 1 : to, LEFT, WIDTH - 8, false);
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}: ${summary(lines)}`, tabindex: "0" });
  for (const at of ticks(low, high, view.log)) {
    picture.append(svg("line", { x1: LEFT, x2: WIDTH - 8, y1: y(at), y2: y(at), class: "grid" }),
      svg("text", { x: LEFT - 4, y: y(at) + 3, "text-anchor": "end" }, short(at)));
  }
  for (const at of [from, to]) {
    picture.append(svg("text", { x: x(at), y: HEIGHT - 5, "text-anchor": at === from ? "start" : "end" }, short(at)));
  }
  drawn.forEach((line) => picture.append(path(line, x, y)));
  const readout = h("output", { className: "readout" }, summary(lines));
  follow(picture, drawn, { x, y, from, to }, readout, summary(lines), onzoom);
  return h("figure", { className: "chart", dataset: { metric: title } },
    h("figcaption", {}, h("b", {}, title), about ? h("span", { className: "quiet" }, ` ${about}`) : null),
    picture, readout);
}

function path(line, x, y) {
  const points = thin(line.points);
  const data = points.map(([a, b], at) => `${at ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("");
  if (points.length === 1) return svg("circle", { cx: x(points[0][0]), cy: y(points[0][1]), r: 2, ...lineOf(line.run) });
  return svg("path", { d: data, fill: "none", ...lineOf(line.run) });
}

function follow(picture, lines, { x, y, from, to }, readout, idle, onzoom) {
  const cursor = svg("line", { y1: TOP, y2: HEIGHT - BOTTOM, class: "cursor", visibility: "hidden" });
  const shade = svg("rect", { y: TOP, height: HEIGHT - BOTTOM - TOP, class: "shade", visibility: "hidden" });
  picture.append(shade, cursor);
  let start = null;
  let where = null;
  const value = (event) => {
    const box = picture.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * WIDTH;
    return Math.min(to, Math.max(from, from + ((at - LEFT) / (WIDTH - 8 - LEFT)) * (to - from)));
  };
  const show = (at) => {
    where = at;
    cursor.setAttribute("visibility", "visible");
    cursor.setAttribute("x1", x(at));
    cursor.setAttribute("x2", x(at));
    readout.textContent = lines.filter((line) => line.points.length).map((line) => {
      const near = line.points.reduce((a, b) => (Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a));
      return `${line.name} ${near[0]}: ${short(near[1])}`;
    }).join("  ");
    if (start !== null) {
      const [a, b] = [x(Math.min(start, at)), x(Math.max(start, at))];
      shade.setAttribute("x", a);
      shade.setAttribute("width", b - a);
      shade.setAttribute("visibility", "visible");
    }
  };
  picture.addEventListener("pointermove", (event) => show(value(event)));
  picture.addEventListener("pointerleave", () => {
    cursor.setAttribute("visibility", "hidden");
    shade.setAttribute("visibility", "hidden");
    readout.textContent = idle;
    start = null;
  });
  picture.addEventListener("pointerdown", (event) => { start = value(event); });
  picture.addEventListener("pointerup", (event) => {
    const end = value(event);
    if (start !== null && Math.abs(x(end) - x(start)) > 8) onzoom([Math.min(start, end), Math.max(start, end)]);
    start = null;
  });
  picture.addEventListener("dblclick", () => onzoom(null));
  picture.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") onzoom(null);
    if (!by) return;
    event.preventDefault();
    show(Math.min(to, Math.max(from, (where ?? from) + by * Math.max(1, (to - from) / 100))));
  });
}

function summary(lines) {
  return lines.filter((line) => line.points.length)
    .map((line) => `${line.name} ${short(line.points.at(-1)[1])}`).join("  ");
}

function extent(numbers, padded) {
  if (!numbers.length) return [0, 1];
  const low = numbers.reduce((a, b) => Math.min(a, b));
  const high = numbers.reduce((a, b) => Math.max(a, b));
  if (low !== high || !padded) return [low, high];
  return [low - (Math.abs(low) / 10 || 1), high + (Math.abs(high) / 10 || 1)];
}

function scaleOf(low, high, start, end, log) {
  const place = log ? Math.log10 : (value) => value;
  const [a, b] = [place(log ? Math.max(low, 1e-12) : low), place(log ? Math.max(high, 1e-11) : high)];
  return (value) => start + ((place(value) - a) / (b - a || 1)) * (end - start);
}
