// A list of any length of which only what can be seen is in the page.
import { h } from "./dom.js";

const EXTRA = 8;

// render(item, index) gives a row of `height` pixels; arrows, Page keys, Home, End and Enter work.
export function virtualList(height, render, onopen, label) {
  let items = [];
  let current = 0;
  const inner = h("div", { className: "virtual-inner" });
  const box = h("div", { className: "virtual", tabIndex: 0, role: "listbox", "aria-label": label }, inner);
  const draw = () => {
    const first = Math.max(0, Math.floor(box.scrollTop / height) - EXTRA);
    const last = Math.min(items.length, Math.ceil((box.scrollTop + box.clientHeight) / height) + EXTRA);
    const rows = [];
    for (let at = first; at < last; at++) {
      const row = render(items[at], at);
      row.style.top = `${at * height}px`;
      row.style.height = `${height}px`;
      row.id = `row-${at}`;
      row.setAttribute("role", "option");
      row.setAttribute("aria-selected", String(at === current));
      row.setAttribute("aria-posinset", String(at + 1));
      row.setAttribute("aria-setsize", String(items.length));
      rows.push(row);
    }
    inner.replaceChildren(...rows);
    box.setAttribute("aria-activedescendant", items.length ? `row-${current}` : "");
  };
  const move = (to) => {
    current = Math.min(items.length - 1, Math.max(0, to));
    const top = current * height;
    if (top < box.scrollTop) box.scrollTop = top;
    if (top + height > box.scrollTop + box.clientHeight) box.scrollTop = top + height - box.clientHeight;
    draw();
  };
  let waiting = false;
  box.addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  }, { passive: true });
  box.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(box.clientHeight / height) - 1);
    const to = { ArrowDown: current + 1, ArrowUp: current - 1, j: current + 1, k: current - 1,
      PageDown: current + page, PageUp: current - page, Home: 0, End: items.length - 1 }[event.key];
    if (event.key === "Enter" && items[current]) onopen(items[current]);
    if (to === undefined || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    move(to);
  });
  new ResizeObserver(draw).observe(box);
  return {
    box,
    set(next) {
      items = next;
      current = Math.min(current, Math.max(0, items.length - 1));
      inner.style.height = `${items.length * height}px`;
      draw();
    },
  };
}
