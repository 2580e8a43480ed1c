"""The page in a real browser: at two widths, light and dark."""

import asyncio
import io
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pandas as pd
import pytest

from permlab.platform.display.palette import styles_of
from permlab.platform.report.blocks import Section
from permlab.platform.report.findings import Findings
from permlab.platform.report.league import League, league_blocks
from permlab.platform.report.page import to_page
from permlab.platform.report.picture import document, to_csv, to_script
from permlab.platform.report.sections import SECTIONS
from permlab.platform.report.stored import StoredSweep

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-port=0"),
]
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
QUOTES = "'" * 3  # around the data of a script
VIEWS = [(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")]

# One visit per view checks everything; the findings come back as one document.
LOOK = r"""
(async () => {
  const facts = {overflow: [], outside: [], contrast: [], empty: [], broken: [], colours: {}, alts: []};
  const root = document.documentElement;
  if (root.scrollWidth > innerWidth) facts.overflow.push(`page ${root.scrollWidth} > ${innerWidth}`);
  for (const node of document.querySelectorAll("body *")) {
    const box = node.getBoundingClientRect();
    if (box.width && box.right > innerWidth + 1 && !node.closest(".scroll, #tip"))
      facts.overflow.push(`${node.tagName} ${node.textContent.slice(0, 40)}`);
  }
  for (const details of document.querySelectorAll("details")) details.open = true;
  for (const svg of document.querySelectorAll(".panel svg")) {
    const frame = svg.getBoundingClientRect();
    if (!svg.querySelector("[data-method] path, [data-method] polyline")) facts.empty.push(svg.closest("figure").id);
    if (/NaN|Infinity|undefined/.test(svg.innerHTML)) facts.broken.push(svg.closest("figure").id);
    for (const text of svg.querySelectorAll("text")) {
      const box = text.getBoundingClientRect();
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1)
        facts.outside.push(`${svg.closest("figure").id}: ${text.textContent}`);
    }
    for (const mark of svg.querySelectorAll("[data-method] path, [data-method] polyline")) {
      const seen = [mark.getAttribute("fill"), mark.getAttribute("stroke")].filter((c) => c && c !== "none");
      (facts.colours[mark.parentNode.dataset.method] ||= []).push(...seen);
    }
  }
  for (const [method, seen] of Object.entries(facts.colours)) facts.colours[method] = [...new Set(seen)];
  const rgb = (text) => text.match(/[\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = colour.map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const back = rgb(getComputedStyle(node).backgroundColor);
      if (back.length < 4 || back[3] > 0) return back.slice(0, 3);
    }
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let texts = 0;
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || node.closest("script, style, noscript, [hidden]")) continue;
    const style = getComputedStyle(node);
    const [a, b] = [light(rgb(node.closest("svg") ? style.fill : style.color).slice(0, 3)), light(behind(node))];
    texts += 1;
    if ((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5) facts.contrast.push(walker.currentNode.data.trim());
  }
  facts.texts = texts;
  facts.background = getComputedStyle(document.body).backgroundColor;
  facts.alts = [...document.querySelectorAll("figure .panels")].map((node) => node.getAttribute("aria-label"));
  facts.panels = document.querySelectorAll(".panel svg").length;
  const button = [...document.querySelectorAll("#legend button")].find((node) => node.textContent === "sum");
  const drawn = () => document.querySelectorAll('[data-method="sum"]').length;
  facts.toggled = [drawn()];
  for (let i = 0; i < 2; i++) { button.click(); facts.toggled.push(drawn()); }
  // Far from every point: the top right corner of the first panel.
  const panel = document.querySelector(".panel svg");
  panel.scrollIntoView({block: "center", behavior: "instant"});
  const frame = panel.getBoundingClientRect();
  const [px, py] = [frame.right - 3, frame.top + 3];
  panel.dispatchEvent(new PointerEvent("pointermove", {clientX: px, clientY: py, bubbles: true}));
  const middle = (node) => {
    const box = node.getBoundingClientRect();
    return [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
  };
  const away = (node) => Math.hypot(middle(node)[0] - px, middle(node)[1] - py);
  const marks = [...panel.querySelectorAll("[data-method] path")].sort((a, b) => away(a) - away(b));
  const ring = middle(panel.querySelector(".ring"));
  const nearest = middle(marks[0]);
  const off = Math.hypot(ring[0] - nearest[0], ring[1] - nearest[1]);
  facts.snapped = {method: marks[0].parentNode.dataset.method, off};
  const tip = document.getElementById("tip");
  const box = tip.getBoundingClientRect();
  const inside = box.left >= 0 && box.right <= innerWidth && box.top >= 0;
  facts.tip = {text: tip.hidden ? "" : tip.textContent, inside};
  // Every mark, interval and band of curves against the axes of its panel.
  facts.outsideAxes = [];
  for (const svg of document.querySelectorAll(".panel svg")) {
    const axis = svg.querySelector(".axis").getBoundingClientRect();
    for (const mark of svg.querySelectorAll("[data-method] line, [data-method] polygon, [data-method] polyline")) {
      const box = mark.getBoundingClientRect();
      const frame = svg.getBoundingClientRect();
      const across = box.left < axis.left - 1 || box.right > axis.right + 1;
      if (across || box.bottom > axis.bottom + 1 || box.top < frame.top - 1)
        facts.outsideAxes.push(svg.closest("figure").id);
    }
  }
  const ticksOf = (id) =>
    [...document.querySelectorAll(`#${id} .panel:first-child svg > text`)].map((node) => node.textContent);
  facts.ticks = ticksOf("width-proteins-full");
  facts.zero = ticksOf("certificates-proteins-full");
  // Axes before, without and again with a method that lies far from the others.
  const axes = () => ticksOf("gap-proteins-full").join(" ");
  const identity = [...document.querySelectorAll("#legend button")].find((node) => node.textContent === "identity");
  facts.axes = [axes()];
  for (let i = 0; i < 2; i++) { identity.click(); facts.axes.push(axes()); }
  // What the buttons under the figures give.
  const blobs = [];
  const make = URL.createObjectURL;
  URL.createObjectURL = (blob) => { blobs.push(blob); return make.call(URL, blob); };
  HTMLAnchorElement.prototype.click = function () { blobs.at(-1).name = this.download; };
  for (const button of document.querySelectorAll("[data-file]")) button.click();
  facts.files = {};
  for (const blob of blobs) facts.files[blob.name] = await blob.text();
  return JSON.stringify(facts);
})()
"""


@pytest.fixture(scope="module")
def page(sweep, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(to_page("PermLab report: made", "all", all_sections(sweep)))
    return path


def all_sections(sweep: StoredSweep) -> list[Section]:
    """With the league, which the report itself shows where more methods than these are compared."""
    findings = Findings(sweep)
    sections = [section for make in SECTIONS if (section := make(findings))]
    return [*sections, Section("league", "The league", league_blocks(League(findings)))]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Chromium just for this module; yields the address of its debugger."""
    profile = tmp_path_factory.mktemp("profile")
    process = subprocess.Popen([str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if "DevTools listening on" in line:
                break
        else:
            pytest.fail("chromium ended before it was ready")
        yield line.split()[-1]
    finally:
        process.kill()
        process.wait()


async def visit(address: str, url: str, width: int, scheme: str) -> tuple[dict[str, Any], list[str], list[str]]:
    """The findings of LOOK, the addresses that were requested, and the complaints of console and page."""
    requests: list[str] = []
    complaints: list[str] = []
    answers: dict[int, asyncio.Future[Any]] = {}
    loaded = asyncio.Event()
    async with aiohttp.ClientSession() as session, session.ws_connect(address, max_msg_size=0) as socket:

        async def listen() -> None:
            async for message in socket:
                event = json.loads(message.data)
                method, params = event.get("method", ""), event.get("params", {})
                if "id" in event:
                    answers.pop(event["id"]).set_result(event)
                elif method == "Network.requestWillBeSent":
                    requests.append(params["request"]["url"])
                elif method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
                    complaints.append(json.dumps(params))
                elif method == "Page.loadEventFired":
                    loaded.set()

        async def call(method: str, session_id: str | None = None, **params: Any) -> Any:
            number = call.count = getattr(call, "count", 0) + 1  # type: ignore[attr-defined]
            answers[number] = future = asyncio.get_running_loop().create_future()
            document = {"id": number, "method": method, "params": params}
            await socket.send_json(document | ({"sessionId": session_id} if session_id else {}))
            answer = await asyncio.wait_for(future, 120)
            assert "error" not in answer, answer
            return answer["result"]

        listener = asyncio.create_task(listen())
        target = (await call("Target.createTarget", url="about:blank"))["targetId"]
        tab = (await call("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            await call(f"{domain}.enable", tab)
        view = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        await call("Emulation.setDeviceMetricsOverride", tab, **view)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await call("Emulation.setEmulatedMedia", tab, features=features)
        await call("Page.navigate", tab, url=url)
        await asyncio.wait_for(loaded.wait(), 120)
        look = {"expression": LOOK, "awaitPromise": True, "returnByValue": True}
        result = await call("Runtime.evaluate", tab, **look)
        assert "exceptionDetails" not in result, result
        await call("Target.closeTarget", targetId=target)
        listener.cancel()
    return json.loads(result["result"]["value"]), requests, complaints


@pytest.fixture(scope="module")
def looked(browser: str, page: Path) -> Callable[[int, str], tuple[dict[str, Any], list[str], list[str]]]:
    seen: dict[tuple[int, str], Any] = {}

    def look(width: int, scheme: str) -> tuple[dict[str, Any], list[str], list[str]]:
        if (width, scheme) not in seen:
            seen[width, scheme] = asyncio.run(visit(browser, page.as_uri(), width, scheme))
        return seen[width, scheme]

    return look


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
def test_plots_render_and_nothing_overflows(looked, width: int, scheme: str) -> None:
    facts, _, _ = looked(width, scheme)
    assert facts["panels"] > 40 and facts["empty"] == [] and facts["broken"] == []
    assert facts["overflow"] == [] and facts["outside"] == [] and facts["outsideAxes"] == []


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
def test_the_page_requests_nothing_else_and_has_no_errors(looked, page: Path, width: int, scheme: str) -> None:
    _, requests, complaints = looked(width, scheme)
    assert [url for url in requests if not url.startswith("data:")] == [page.as_uri()]
    assert complaints == []


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
def test_text_has_enough_contrast(looked, width: int, scheme: str) -> None:
    facts, _, _ = looked(width, scheme)
    assert facts["texts"] > 500 and facts["contrast"] == []
    assert facts["background"] == {"light": "rgb(255, 255, 255)", "dark": "rgb(21, 24, 29)"}[scheme]


def test_figures_say_in_words_what_they_show(looked) -> None:
    facts, _, _ = looked(1280, "light")
    assert len(facts["alts"]) == len(set(facts["alts"])) > 10 and all(len(alt) > 60 for alt in facts["alts"])


def test_a_method_has_one_colour_everywhere(looked) -> None:
    facts, _, _ = looked(1280, "dark")
    assert len(facts["colours"]) == 7
    assert facts["colours"] == {method: [style.colour] for method, style in styles_of(facts["colours"]).items()}


@pytest.mark.parametrize("width", [1280, 390])
def test_legend_and_tooltips_work(looked, width: int) -> None:
    facts, _, _ = looked(width, "light")
    before, hidden, after = facts["toggled"]
    assert before > 10 and hidden == 0 and after == before
    assert facts["tip"]["text"].startswith(f"{facts['snapped']['method']}, ") and facts["tip"]["inside"]
    assert facts["snapped"]["off"] < 1, "the ring is around the nearest point, wherever the pointer is in the panel"


@pytest.mark.parametrize("width", [1280, 390])
def test_axes_rescale_and_ticks_are_values(looked, width: int) -> None:
    facts, _, _ = looked(width, "light")
    before, without, after = facts["axes"]
    assert before == after != without
    assert facts["ticks"][:2] == ["1", "10"] and facts["zero"][0] == "0"  # the widths; an error of exactly zero


def test_every_figure_gives_its_data_and_its_script(looked, page: Path, sweep, tmp_path: Path) -> None:
    facts, _, _ = looked(1280, "light")
    figures = [figure for section in all_sections(sweep) for figure in section.figures]
    assert set(facts["files"]) == {f"{figure.name}.{ending}" for figure in figures for ending in ("csv", "py")}
    for figure in figures:
        content = document(figure, styles_of(sweep.methods))
        ours, theirs = (
            pd.read_csv(io.StringIO(text)) for text in (to_csv(content), facts["files"][f"{figure.name}.csv"])
        )
        pd.testing.assert_frame_equal(ours, theirs)
        ours, theirs = (script.split(QUOTES) for script in (to_script(content), facts["files"][f"{figure.name}.py"]))
        assert (ours[0], ours[2]) == (theirs[0], theirs[2]) and json.loads(theirs[1]) == json.loads(ours[1]) == content
