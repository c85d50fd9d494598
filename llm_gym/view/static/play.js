// Play on by hand: other moves from a turn of the record, in the environment restored by its moves.
import { h, prose, short } from "./dom.js";
import { backend } from "./source.js";

export function playPanel(row, turn) {
  const box = h("details", { className: "play" }, h("summary", {}, "play on from here"));
  box.addEventListener("toggle", () => { if (box.open && box.children.length === 1) begin(box, row, turn); });
  return box;
}

function begin(box, row, turn) {
  const moves = [];
  const told = h("div", { "aria-live": "polite" });
  const move = h("input", { type: "text", "aria-label": "your move", placeholder: "your move", autocomplete: "off" });
  const legal = h("div", { className: "legal" });
  const back = h("button", { type: "button", onclick: () => { moves.pop(); ask(); } }, "take back");
  const form = h("form", { className: "tools", onsubmit: (event) => {
    event.preventDefault();
    moves.push(move.value);
    move.value = "";
    ask();
  } }, move, h("button", {}, "play"), back);
  async function ask() {
    try {
      show(await backend.play({ source: row.source, file: row.file, line: row.line, turn, moves }));
    } catch (error) {
      moves.pop();
      told.replaceChildren(h("p", { className: "warning" }, `It cannot be played on: ${error.message}`));
    }
  }
  function show(answer) {
    back.disabled = !moves.length;
    move.disabled = answer.done;
    told.replaceChildren(...(answer.note ? [h("p", { className: "warning" }, answer.note)] : []),
      ...answer.turns.flatMap((each) => [h("p", { className: "by-hand" }, `> ${each.action}`),
        h("p", { className: "quiet" }, `reward ${short(each.reward)}${each.done ? `, ${each.stop}` : ""}`)]), prose(answer.state));
    legal.replaceChildren(...answer.legal.map((text) => h("button", { type: "button", onclick: () => { moves.push(text); ask(); } }, text)));
    move.focus();
  }
  box.append(told, form, legal);
  ask();
}
