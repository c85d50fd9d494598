// The page: which view the address names, the keys that work everywhere, and looking again.
import { h } from "./dom.js";
import { backend, open, refresh, store } from "./source.js";
import { runView } from "./run_view.js";
import { episodesView } from "./episodes_view.js";
import { episodeView } from "./episode_view.js";
import { compareView } from "./compare_view.js";
import { groupsView, groupView } from "./groups_view.js";
import { suiteView } from "./suite_view.js";

const VIEWS = [["run", "Run"], ["episodes", "Episodes"], ["groups", "Groups"], ["suite", "Suite"]];
const KEYS = [["1 2 3 4", "the views"], ["/", "search"], ["j k, arrows", "along a list"], ["Enter", "open"],
  ["n p", "next and previous episode"], ["← →", "along the tokens"], ["t", "dark or light"], ["?", "this list"]];
const LOOK_AGAIN = 2000;
const main = document.getElementById("main");
let filters = {};
let shown = 0;

const navigate = (hash) => { location.hash = hash; };

function view(path, fields) {
  const [name, ...rest] = path.split("/");
  const key = rest.map(Number);
  if (name === "episodes") {
    filters = fields;
    return episodesView(filters, navigate);
  }
  if (name === "episode") return episodeView(...key, filters, navigate);
  if (name === "compare") return compareView([key.slice(0, 3), key.slice(3, 6)]);
  if (name === "groups") return groupsView(navigate);
  if (name === "group") return groupView(decodeURIComponent(rest.join("/")));
  if (name === "suite") return suiteView();
  return runView();
}

async function show() {
  const fallback = store.metrics.some((metrics) => metrics.rows.length) || !store.episodes.length ? "run" : "episodes";
  const [path, fields] = (location.hash.replace(/^#\/?/, "") || fallback).split("?");
  const turn = ++shown;
  let page;
  try {
    page = await view(path, Object.fromEntries(new URLSearchParams(fields || "")));
  } catch (error) {
    page = h("section", {}, h("h1", {}, "That cannot be shown"), h("p", { className: "warning" }, error.message));
  }
  if (turn !== shown) return; // somebody has gone on meanwhile
  main.replaceChildren(page);
  scrollTo(0, 0);
  const name = { episode: "episodes", compare: "episodes", group: "groups" }[path.split("/")[0]] || path.split("/")[0];
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#/${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  main.dataset.view = path.split("/")[0];
}

function theme(next) {
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("theme", next);
  } catch { /* a page from disk may have no storage */ }
}

function toggleTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
  theme(now === "dark" ? "light" : "dark");
}

const help = h("dialog", { "aria-label": "keys" }, h("h2", {}, "Keys"),
  h("dl", { className: "facts" }, KEYS.map(([key, what]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)))),
  h("form", { method: "dialog" }, h("button", {}, "close")));

function press(event) {
  const typing = event.target instanceof Element && event.target.matches("input, textarea, select");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const at = Number(event.key) - 1;
  if (VIEWS[at]) navigate(`#/${VIEWS[at][0]}`);
  else if (event.key === "/") {
    event.preventDefault();
    if (main.dataset.view !== "episodes") navigate("#/episodes");
    requestAnimationFrame(() => setTimeout(() => document.getElementById("search")?.focus(), 50));
  } else if (event.key === "?") help.showModal();
  else if (event.key === "t") toggleTheme();
  else if (event.key === "n") main.firstElementChild?.step?.(1);
  else if (event.key === "p") main.firstElementChild?.step?.(-1);
}

async function lookAgain(status) {
  if (!document.hidden) {
    try {
      const changed = await refresh();
      status.textContent = "live";
      const page = main.firstElementChild;
      if (changed.metrics && main.dataset.view === "run") page?.redraw?.();
      if (changed.episodes && main.dataset.view === "episodes") page?.redraw?.();
    } catch {
      status.textContent = "not connected";
    }
  }
  setTimeout(lookAgain, LOOK_AGAIN, status);
}

async function start() {
  try {
    const kept = localStorage.getItem("theme");
    if (kept) theme(kept);
  } catch { /* as above */ }
  const status = h("span", { className: "quiet", id: "status" }, backend.live ? "live" : "exported");
  document.getElementById("top").append(h("span", { className: "brand" }, "llm-gym"),
    h("nav", { "aria-label": "views" }, VIEWS.map(([name, label]) => h("a", { href: `#/${name}` }, label))), status,
    h("button", { onclick: toggleTheme, title: "dark or light (t)", "aria-label": "dark or light" }, "◐"),
    h("button", { onclick: () => help.showModal(), title: "keys (?)", "aria-label": "keys" }, "?"));
  document.body.append(help);
  await open();
  addEventListener("hashchange", show);
  addEventListener("keydown", press);
  await show();
  document.documentElement.dataset.ready = "yes";
  if (backend.live) setTimeout(lookAgain, LOOK_AGAIN, status);
}

start().catch((error) => main.replaceChildren(h("p", { className: "warning" }, `The data cannot be read: ${error.message}`)));
