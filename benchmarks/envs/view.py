"""How fluid the viewer is: 10,000 episodes and an episode of 4,000 sampled tokens, in Chromium.

    python -m benchmarks.envs.view       # needs playwright and a chromium: make test-view

Frames are those that the browser draws while the list is scrolled from end to end in 120 steps, and
while the focus walks along 200 tokens. Writes ``results/view.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import threading
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks.lib.machine import RESULTS, provenance
from llm_gym.episodes import write_episodes
from llm_gym.view.server import ViewServer
from llm_gym.view.sources import open_sources
from tests.view.records import played, with_tokens

if TYPE_CHECKING:
    from playwright.sync_api import Page

RESULT = RESULTS / "view.json"
SCROLL = """async () => {
  const box = document.querySelector(".virtual"), frames = [];
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  let last = await frame();
  for (let step = 0; step <= 120; step++) {
    box.scrollTop = (box.scrollHeight - box.clientHeight) * step / 120;
    const now = await frame();
    frames.push(now - last);
    last = now;
  }
  return frames;
}"""
WALK = """async () => {
  const frames = [], frame = () => new Promise((done) => requestAnimationFrame(done));
  document.querySelector(".token").focus();
  let last = await frame();
  for (let step = 0; step < 200; step++) {
    const press = new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true });
    document.activeElement.dispatchEvent(press);
    const now = await frame();
    frames.push(now - last);
    last = now;
  }
  return frames;
}"""
FILTER = """async () => {
  const labels = [...document.querySelectorAll("label.field")];
  const box = labels.find((l) => l.textContent.startsWith("won")).querySelector("select");
  const times = [];
  for (const value of ["true", "false", "", "true", ""]) {
    const start = performance.now();
    box.value = value;
    box.dispatchEvent(new Event("change"));
    document.body.offsetHeight;  // layout is part of it
    times.push(performance.now() - start);
  }
  return times;
}"""
RECOLOUR = """async () => {
  const box = document.querySelector(".episode select"), times = [];
  for (const value of ["log_probs", "values", "ratios", "advantages"]) {
    const start = performance.now();
    box.value = value;
    box.dispatchEvent(new Event("change"));
    document.body.offsetHeight;
    times.push(performance.now() - start);
  }
  return times;
}"""


def measure(page: Page, url: str, opening: float) -> dict[str, float]:
    """Return milliseconds of everything."""
    start = perf_counter()
    page.goto(url + "#/episodes")
    page.wait_for_selector(".row")
    listed = perf_counter() - start
    scroll, chosen = page.evaluate(SCROLL), page.evaluate(FILTER)
    start = perf_counter()
    page.evaluate("location.hash = '#/episode/1/0/1'")
    page.wait_for_selector(".token")
    opened = perf_counter() - start
    sampled = page.locator(".token").count()
    assert sampled == 4000, sampled
    return {
        "index_10000_s": round(opening, 2),
        "list_10000_ms": round(1e3 * listed),
        "scroll_frame_ms": round(statistics.median(scroll), 1),
        "scroll_frame_95_ms": round(statistics.quantiles(scroll, n=20)[-1], 1),
        "filter_ms": round(statistics.median(chosen), 1),
        "filter_worst_ms": round(max(chosen), 1),
        "open_4000_ms": round(1e3 * opened),
        "recolour_4000_ms": round(statistics.median(page.evaluate(RECOLOUR)), 1),
        "walk_frame_ms": round(statistics.median(walk := page.evaluate(WALK)), 1),
        "walk_frame_95_ms": round(statistics.quantiles(walk, n=20)[-1], 1),
    }


def main() -> None:
    """Measure, print and write."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("LLM_GYM_CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        line, other = played(1).to_json() + "\n", with_tokens().to_json() + "\n"
        (folder / "many.jsonl").write_text((line * 9 + other) * 1000)
        write_episodes(folder / "long.jsonl", [with_tokens(6000)])
        start = perf_counter()
        sources = open_sources([folder / "many.jsonl", folder / "long.jsonl"])
        opening = perf_counter() - start
        server = ViewServer(sources)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        args = ["--no-sandbox", "--disable-gpu"] if os.geteuid() == 0 else ["--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=chromium, args=args)
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        row: dict[str, Any] = measure(page, server.url, opening)
        row["chromium"] = browser.version
        browser.close()
        server.shutdown()
    RESULT.write_text(
        json.dumps(provenance(__file__, ["playwright"]) | {"row": row}, indent=1) + "\n"
    )
    print(json.dumps(row))


if __name__ == "__main__":
    main()
