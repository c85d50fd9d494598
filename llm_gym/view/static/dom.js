// Elements without markup: text of a model reaches the page as text nodes and in no other way.

export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  assign(element, properties);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function assign(element, properties) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
}

export function select(label, options, chosen, onpick) {
  const box = h("select", { onchange: () => onpick(box.value) });
  for (const [value, text] of options) {
    box.append(h("option", { value, selected: value === chosen }, text));
  }
  return h("label", { className: "field" }, h("span", {}, label), box);
}

// A number as people read it. The exact one is what String() gives, and is shown on its own.
export function short(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return size < 0.001 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}

// What no one sees otherwise: control characters, zero-width ones, those that turn the direction.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/;

export function visible(text) {
  if (!HIDDEN.test(text)) return [text];
  const parts = [];
  let plain = "";
  for (const character of text) {
    if (!HIDDEN.test(character)) {
      plain += character;
      continue;
    }
    if (plain) parts.push(plain);
    plain = "";
    const code = character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    parts.push(h("span", { className: "hidden-char", title: `U+${code}` }, `U+${code}`));
  }
  if (plain) parts.push(plain);
  return parts;
}

const LONG = 20000;

// Text in its own direction box; a huge one is shown in part, and the rest on demand.
export function prose(text, className) {
  const box = h("div", { className: `prose ${className || ""}`, dir: "auto" });
  box.append(...visible(text.slice(0, LONG)));
  if (text.length > LONG) {
    const more = h("button", { onclick: () => more.replaceWith(...visible(text.slice(LONG))) },
      `show the other ${(text.length - LONG).toLocaleString("en")} characters`);
    box.append(more);
  }
  return box;
}
