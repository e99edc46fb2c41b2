"""The page in a real browser: evidence by mouse and keyboard, and what the page then shows."""

import json
import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals import MDMA
from marginals.explorer.front_end import one_module, style
from marginals.explorer.session import Session
from tests.explorer.conftest import (
    NEEDS_BROWSER,
    Page,
    Running,
    address,
    card,
    given,
    opened,
    serving,
    settled,
)

pytestmark = NEEDS_BROWSER


def test_numbers_are_pythons(page: Page, server: Running, model: MDMA) -> None:
    cell = {"is": "value", "value": "large"}
    opened(page, server, e={"kind": cell})
    settled(page, "kind = large")
    share = model.prob({"kind": "large"})
    assert f"P(evidence) = {share:.4g}" in page.locator(".mx-probability").inner_text()
    for name in ("size", "weight"):
        low, middle, high = (
            f"{q:.4g}".replace("-", "−")
            for q in model.ppf([0.05, 0.5, 0.95], name, given={"kind": "large"})
        )
        text = f"median {middle} · 90 % {low} – {high}"
        page.wait_for_function(
            "([name, text]) => document.querySelector(`.mx-card[data-id=${name}] .mx-summary`)"
            ".textContent === text",
            arg=[name, text],
        )


def test_evidence_by_mouse(page: Page, server: Running) -> None:
    opened(page, server)
    box = card(page, "size").locator(".mx-plot").bounding_box()
    before = card(page, "weight").locator(".mx-line").get_attribute("d")
    page.mouse.click(box["x"] + box["width"] * 0.7, box["y"] + box["height"] * 0.4)
    settled(page, "size = ")
    assert card(page, "weight").locator(".mx-line").get_attribute("d") != before
    box = card(page, "price").locator(".mx-plot").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 32, steps=4)
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 32, steps=4)
    page.mouse.up()
    settled(page, "≤ price ≤")
    card(page, "kind").locator("[data-bar='0'] text").first.click()
    card(page, "kind").locator("[data-bar='1'] text").first.click()
    settled(page, "kind ∈ {")
    page.locator(".mx-chips li", has_text="price").get_by_role("button").last.click()
    page.wait_for_function("() => !document.querySelector('.mx-chips').innerText.includes('price')")
    page.get_by_role("button", name="Mark kind as unknown").click()
    page.wait_for_function("() => !document.querySelector('.mx-chips').innerText.includes('kind')")


def test_one_request_serves_a_whole_drag(page: Page, server: Running, model: MDMA) -> None:
    """While the pointer moves, the page shows nearly what it shows after the release."""
    asked: list[str] = []
    page.on("request", lambda r: r.post_data and asked.append(json.loads(r.post_data)["ask"]))
    opened(page, server)
    box = card(page, "size").locator(".mx-plot").bounding_box()
    page.wait_for_load_state("networkidle")
    asked.clear()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 30, steps=4)
    page.wait_for_function("() => document.querySelector('.mx-probability').innerText.match('≈')")
    asked_first = list(asked)
    shown = "el => el.querySelector('.mx-plot').getAttribute('aria-valuenow')"
    steps = []
    for share in (0.5, 0.6, 0.7):
        page.mouse.move(box["x"] + box["width"] * share, box["y"] + 30)
        page.evaluate("() => new Promise(requestAnimationFrame)")
        steps.append(float(card(page, "weight").evaluate(shown)))
    assert "sweep" in asked_first
    assert asked == asked_first
    assert steps == sorted(set(steps))
    page.mouse.up()
    page.wait_for_function("() => document.querySelector('.mx').dataset.shown === 'exact'")
    settled(page, "≤ size ≤")
    span = 0.01 * float(np.ptp(np.asarray(model.ppf([0.002, 0.998], "weight"))))
    assert float(card(page, "weight").evaluate(shown)) == pytest.approx(steps[-1], abs=span)


def test_soft_evidence_by_mouse(page: Page, server: Running) -> None:
    opened(page, server)
    grip = card(page, "kind").locator("[data-grip='0']")
    grip.hover()
    box = grip.bounding_box()
    page.mouse.move(box["x"] + 3, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + 40, box["y"] + 5, steps=5)
    page.mouse.up()
    settled(page, "kind ~ ")
    assert "Jeffrey" in card(page, "kind").inner_text()


def test_evidence_by_keyboard_and_undo(page: Page, server: Running) -> None:
    opened(page, server)
    plot = card(page, "size").locator(".mx-plot")
    plot.focus()
    page.keyboard.press("ArrowRight")
    settled(page, "size = ")
    first = given(page)
    page.keyboard.press("ArrowRight")
    page.wait_for_function("t => document.querySelector('.mx-chips').innerText !== t", arg=first)
    page.keyboard.press("Shift+ArrowRight")
    settled(page, "≤ size ≤")
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    page.wait_for_function("t => document.querySelector('.mx-chips').innerText === t", arg=first)
    page.keyboard.press("Control+y")
    page.wait_for_function("t => document.querySelector('.mx-chips').innerText !== t", arg=first)
    page.keyboard.press("Escape")
    page.wait_for_function(
        "() => document.querySelector('.mx-chips').innerText.includes('No evidence')"
    )
    page.keyboard.press("Enter")
    page.keyboard.type("0.2..1.5")
    page.keyboard.press("Enter")
    settled(page, "0.2 ≤ size ≤ 1.5")
    page.wait_for_function(
        "() => document.querySelector('.mx-live').innerText.includes('Given 0.2 ≤ size ≤ 1.5')"
    )
    card(page, "kind").locator(".mx-plot").focus()
    page.keyboard.press("ArrowDown")
    settled(page, "kind = ")
    page.keyboard.press("Shift+ArrowDown")
    page.wait_for_function(
        "() => document.querySelector('.mx-chips').innerText.match(/kind (∈|=)/)"
    )


@pytest.mark.parametrize(
    ("column", "text", "where", "words"),
    [("size", "heavy", ".mx-problem", "Expected"), ("rain", "-3", ".mx-toast", "not applied")],
    ids=["nonsense", "impossible"],
)
def test_typed_evidence_is_refused(
    page: Page, server: Running, column: str, text: str, where: str, words: str
) -> None:
    opened(page, server)
    card(page, column).locator(".mx-plot").focus()
    page.keyboard.press("Enter")
    page.keyboard.type(text)
    page.keyboard.press("Enter")
    page.wait_for_selector(f"{where}:not([hidden])")
    assert words in page.locator(where).inner_text()
    assert "No evidence" in given(page)
    page.keyboard.press("Escape")
    assert page.locator(".mx-typing").count() == 0


def test_the_state_is_in_the_address(page: Page, server: Running) -> None:
    opened(page, server)
    card(page, "kind").locator("[data-bar='0'] text").first.click()
    settled(page, "kind = ")
    page.get_by_role("combobox", name="Target", exact=True).select_option("weight")
    page.wait_for_selector(".mx-target-panel .mx-chart")
    text, there = given(page), page.url
    page.goto("about:blank")
    page.goto(there)
    page.wait_for_selector(".mx-target-panel .mx-chart")
    settled(page, "kind = ")
    assert given(page) == text
    assert "weight" in page.locator(".mx-target-panel h2").inner_text()


def test_undo_goes_back_beyond_a_reload(page: Page, server: Running) -> None:
    opened(page, server)
    card(page, "kind").locator("[data-bar='0'] text").first.click()
    settled(page, "kind = ")
    card(page, "kind").locator("[data-bar='1'] text").first.click()
    settled(page, "kind ∈ {")
    page.reload()
    page.wait_for_selector(".mx-grid .mx-line")
    settled(page, "kind ∈ {")
    page.get_by_role("button", name="Undo").click()
    settled(page, "kind = ")
    page.get_by_role("button", name="Redo").click()
    settled(page, "kind ∈ {")


def test_what_an_address_holds_for_another_model_is_left_out(page: Page, server: Running) -> None:
    cells = {
        "kind": {"is": "value", "value": "large"},
        "size": {"is": "range", "low": "x", "high": None},
        "weight": 5,
        "colour": {"is": "value", "value": "red"},
    }
    opened(page, server, e=cells, target="nowhere", pins=[3], order="no", hidden={}, sort="odd")
    settled(page, "kind = large")
    text = page.locator(".mx-toast").inner_text()
    assert all(name in text for name in ("size", "weight", "colour"))
    assert page.locator(".mx-chips li").count() == 1
    page.goto(server.address + "#%7Bnonsense")
    page.reload()
    page.wait_for_selector(".mx-grid .mx-line")
    assert "No evidence" in given(page)


ODD = ['it\'s "so"', "größe.€", "a" * 200, "constructor", "__proto__", "", "<b>x</b>", "0"]


def test_odd_names_levels_and_columns(browser: Any) -> None:
    """Names that break carelessly written pages, hundreds of levels, constants and gaps."""
    rng = np.random.default_rng(0)
    place = rng.normal(size=120)
    frame = pd.DataFrame({name: place + rng.normal(size=120) for name in ODD})
    frame["city"] = [f"city {i % 60} of a long name" for i in range(120)]
    frame["city"] = pd.Categorical(frame["city"], [f"city {i} of a long name" for i in range(300)])
    frame["same"] = 3.0
    frame["empty"] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MDMA(width=3, max_steps=3, random_state=0, progress=False).fit(frame)
    with serving(Session(model, frame)) as running:
        context = browser.new_context(viewport={"width": 1200, "height": 2000})
        page = opened(context.new_page(), running)
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        plots = page.locator(".mx-grid .mx-card .mx-plot")
        assert plots.count() == frame.shape[1]
        for name in ("constructor", "__proto__", 'it\'s "so"', "(no name)"):
            page.get_by_role("slider", name=f"{name}: continuous", exact=True).focus()
            page.keyboard.press("ArrowRight")
            page.wait_for_function(
                "name => document.querySelector('.mx-chips').innerText.includes(name)", arg=name
            )
        city = page.locator(".mx-card[data-id=city]")
        assert "288 more" in city.inner_text()
        city.locator(".mx-plot").focus()
        page.keyboard.press("Enter")
        page.keyboard.type("city 59 of a long name")
        page.keyboard.press("Enter")
        page.wait_for_function(
            "() => document.querySelector('.mx-card[data-id=city] .mx-on title')"
            "?.textContent === 'city 59 of a long name'"
        )
        page.locator(".mx-tabs [data-view=rows]").click()
        page.wait_for_selector(".mx-rows tbody tr")
        page.locator(".mx-tabs [data-view=pairs]").click()
        page.wait_for_selector(".mx-cells path")
        assert not problems
        context.close()


def test_a_model_of_one_column(browser: Any) -> None:
    frame = pd.DataFrame({"alone": np.arange(60) % 7})
    model = MDMA(width=2, max_steps=3, random_state=0, progress=False).fit(frame)
    with serving(Session(model, frame)) as running:
        context = browser.new_context()
        page = context.new_page()
        page.goto(address(running, view="pairs", target="alone"))
        page.wait_for_selector(".mx-grid .mx-bars rect")
        assert not page.locator(".mx-tabs [data-view=pairs]").is_visible()
        page.wait_for_selector(".mx-target-panel:not([hidden])")
        card(page, "alone").locator(".mx-plot").focus()
        page.keyboard.press("ArrowRight")
        settled(page, "alone = ")
        context.close()


def test_columns_are_searched_pinned_hidden_and_moved(page: Page, server: Running) -> None:
    opened(page, server)
    names = "[...document.querySelectorAll('.mx-grid .mx-card')].map(c => c.dataset.id)"
    page.get_by_label("Search columns").fill("rai")
    assert page.evaluate(names) == ["rain"]
    page.get_by_label("Search columns").fill("")
    card(page, "sold").hover()
    page.get_by_role("button", name="Pin sold").click()
    assert page.evaluate(names)[0] == "sold"
    card(page, "size").hover()
    page.get_by_role("button", name="Hide size").click()
    assert "size" not in page.evaluate(names)
    page.get_by_role("button", name="Show all").click()
    assert "size" in page.evaluate(names)
    card(page, "weight").locator(".mx-plot").focus()
    page.keyboard.press("Alt+ArrowLeft")
    assert page.evaluate(names)[:3] == ["sold", "weight", "size"]


def test_pairs(page: Page, server: Running) -> None:
    opened(page, server, view="pairs", pair=["size", "weight"])
    page.wait_for_selector(".mx-cells path")
    assert page.locator(".mx-points circle").count() > 100
    page.get_by_label("Column on the vertical axis").select_option("kind")
    page.wait_for_function("() => document.querySelectorAll('.mx-cells path').length === 3")
    page.get_by_label("Column on the horizontal axis").select_option("count")
    page.wait_for_selector(".mx-cells rect")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as SVG").click()
    text = saved.value.path().read_text()
    assert text.startswith("<svg")
    assert "fill=" in text


def test_rows(page: Page, server: Running, session: Session) -> None:
    opened(page, server, view="rows")
    page.wait_for_selector(".mx-rows tbody tr")
    page.get_by_label("A row to paste").fill("size,weight,kind\n0.5,-9,large")
    page.get_by_role("button", name="Read this row").click()
    page.wait_for_selector(".mx-surprise[data-id=weight]")
    page.wait_for_selector(".mx-gap[data-id=price]")
    page.get_by_role("button", name="Draw", exact=True).click()
    page.wait_for_selector(".mx-drawn tbody tr")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()
    lines = saved.value.path().read_text().strip().split("\n")
    assert lines[0].startswith("size,weight")
    assert len(lines) == 101
    page.get_by_role("button", name="Use the row's values as evidence").click()
    settled(page, "weight = −9")


def test_questions_are_copied(page: Page, server: Running, model: MDMA) -> None:
    opened(page, server, e={"kind": {"is": "value", "value": "large"}}, target="weight")
    settled(page, "kind")
    page.locator("[data-copy=query]").click()
    page.wait_for_function("() => document.querySelector('.mx').dataset.copied")
    text = page.evaluate("document.querySelector('.mx').dataset.copied")
    assert text == "Q[0.05, 0.5, 0.95](weight | kind = large)"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone_width(browser: Any, server: Running, scheme: str) -> None:
    context = browser.new_context(
        viewport={"width": 375, "height": 700}, has_touch=True, color_scheme=scheme
    )
    page = opened(context.new_page(), server)
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    box = card(page, "size").locator(".mx-plot").bounding_box()
    assert box["width"] > 300
    page.touchscreen.tap(box["x"] + box["width"] * 0.7, box["y"] + 30)
    settled(page, "size = ")
    paper = page.evaluate("getComputedStyle(document.querySelector('.mx')).backgroundColor")
    assert (int(re.findall(r"\d+", paper)[0]) > 127) == (scheme == "light")
    context.close()


def test_names_for_screen_readers(page: Page, server: Running) -> None:
    opened(page, server)
    nameless = page.evaluate(
        "[...document.querySelectorAll('.mx button, .mx select, .mx input, .mx [tabindex]')]"
        ".filter(n => !(n.getAttribute('aria-label') || n.innerText?.trim())).length"
    )
    assert nameless == 0
    plot = card(page, "size").locator(".mx-plot")
    assert plot.get_attribute("role") == "slider"
    assert re.match(r"median .* 90 %", plot.get_attribute("aria-valuetext"))


def test_two_pages_do_not_disturb_each_other(browser: Any, server: Running) -> None:
    pages = [opened(browser.new_context().new_page(), server) for _ in range(2)]
    card(pages[0], "kind").locator("[data-bar='0'] text").first.click()
    settled(pages[0], "kind = ")
    assert "No evidence" in given(pages[1])
    card(pages[1], "kind").locator("[data-bar='1'] text").first.click()
    settled(pages[1], "kind = ")
    assert given(pages[0]) != given(pages[1])
    for page in pages:
        page.context.close()


def test_a_killed_server_is_noticed(browser: Any, session: Session) -> None:
    context = browser.new_context()
    with serving(session) as running:
        page = opened(context.new_page(), running)
    card(page, "kind").locator("[data-bar='0'] text").first.click()
    page.wait_for_selector(".mx-banner:not([hidden])")
    assert "does not answer" in page.locator(".mx-banner").inner_text()
    # It goes on by itself when the server is back at the same address.
    port = int(running.address.split(":")[2].split("/")[0])
    with serving(session, port=port):
        page.wait_for_selector(".mx-banner", state="hidden")
        settled(page, "kind = ")
    context.close()


def test_the_widgets_module_runs(browser: Any, session: Session) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.expose_function("answered", lambda ask, asked: session.answer(ask, asked))
    page.set_content(f"<style>{style()}</style><div id='cell'></div>")
    page.evaluate(
        """async (text) => {
          const listeners = [];
          const model = {
            on: (_, listener) => listeners.push(listener),
            send: async ({ask, number, with: content}) => {
              const answer = await window.answered(ask, content);
              listeners.forEach((listener) => listener({number, answer}));
            },
          };
          const file = new Blob([text], {type: "text/javascript"});
          const module = await import(URL.createObjectURL(file));
          module.default.render({model, el: document.getElementById("cell")});
        }""",
        one_module(),
    )
    page.wait_for_selector(".mx-grid .mx-line")
    card(page, "kind").locator("[data-bar='0'] text").first.click()
    settled(page, "kind = ")
    context.close()
