"""Many pages at once, and pages of many columns, in a real browser."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pandas as pd

from marginals import MDMA
from marginals.explorer.session import Session
from tests.explorer.conftest import NEEDS_BROWSER, Page, Running, card, opened, serving, settled

pytestmark = NEEDS_BROWSER
# Scroll from the top of the page to its end by a screen per frame; return the frames' milliseconds.
_SCROLL = """async () => {
  const { scrollHeight, clientHeight } = document.scrollingElement;
  const frame = () => new Promise(requestAnimationFrame), waits = [];
  for (let top = 0, last = await frame(); top < scrollHeight; top += clientHeight / 2) {
    scrollTo(0, top);
    const now = await frame();
    waits.push(now - last);
    last = now;
  }
  return waits;
}"""


def test_a_page_works_beside_fifty_that_are_dragged(page: Page, server: Running) -> None:
    stop, replies = threading.Event(), [Counter[str]() for _ in range(50)]

    def drag(place: int) -> None:
        with httpx.Client(base_url=server.address, timeout=120) as client:
            number = 0
            while number < 2 or not stop.is_set():
                number += 1
                cell = {"is": "range", "low": -1 + number % 20 / 20, "high": 1 + place / 50}
                body = {"ask": "monitors", "page": f"page {place}", "number": number}
                reply = client.post("api", json={**body, "with": {"evidence": {"size": cell}}})
                found = "columns" in reply.json() if reply.status_code == 200 else False
                replies[place][str(reply.status_code) if not found else "answered"] += 1

    page.context.set_default_timeout(90_000)
    opened(page, server)
    with ThreadPoolExecutor(50) as threads:
        jobs = [threads.submit(drag, place) for place in range(50)]
        try:
            card(page, "kind").locator("[data-bar='0'] text").first.click()
            settled(page, "kind = ")
            page.wait_for_function("() => document.querySelector('.mx').dataset.shown === 'exact'")
        finally:
            stop.set()
        for job in jobs:
            job.result()
    assert all(set(count) == {"answered"} for count in replies)


def test_of_many_columns_only_those_near_the_screen_are_drawn(browser: Any) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 300)), columns=[f"c{i}" for i in range(300)])
    model = MDMA(width=2, max_steps=1, random_state=0, progress=False).fit(frame)
    drawn = "document.querySelectorAll('.mx-grid .mx-line[d]').length"
    with serving(Session(model)) as running:
        context = browser.new_context(viewport={"width": 1200, "height": 800})
        context.set_default_timeout(60_000)
        page = opened(context.new_page(), running)
        assert 0 < page.evaluate(drawn) < 80
        page.locator(".mx-card[data-id=c299]").scroll_into_view_if_needed()
        page.wait_for_selector(".mx-card[data-id=c299] .mx-line[d]")
        assert page.evaluate(drawn) < 200
        # Scrolling through all of them: no frame takes long, and the last ones are drawn.
        waits = page.evaluate(_SCROLL)
        assert len(waits) > 20
        assert np.median(waits) < 200
        assert page.evaluate("document.scrollingElement.scrollTop") > 0
        context.close()
