"""Make the picture of the explorer: the demo's wine model in Chromium, given two ranges.

Run `python docs/build_explorer_picture.py` after a change to the page. It needs playwright and a
browser, as the tests of the page do.
"""

import json
import sys
import urllib.parse
from pathlib import Path

from marginals import MDMA
from marginals.cli.demo import load
from marginals.explorer.session import Session

ROOT = Path(__file__).parents[1]
EVIDENCE = {
    "alcohol": {"is": "range", "low": 12.9, "high": 13.8},
    "color_intensity": {"is": "range", "low": 4, "high": None},
}


def main(path: Path = ROOT / "docs" / "images" / "explorer.png") -> None:
    """Fit, serve, and photograph the page."""
    sys.path.insert(0, str(ROOT))
    from playwright.sync_api import sync_playwright

    from studies.harness.browser import FLAGS, chromium
    from tests.explorer.conftest import serving

    table = load(seed=0).train
    session = Session(MDMA(random_state=0, progress=False).fit(table), table, "wine.mdma")
    state = urllib.parse.quote(json.dumps({"e": EVIDENCE, "target": "proline", "against": "none"}))
    with serving(session) as running, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        size = {"width": 1280, "height": 720}
        page = browser.new_page(viewport=size, device_scale_factor=1.25)
        page.goto(f"{running.address}#{state}")
        page.wait_for_selector(".mx-target-panel:not(.mx-waiting) .mx-chart")
        page.wait_for_function(
            "() => document.querySelector('.mx-agree').innerText.includes('agree')"
        )
        page.wait_for_timeout(500)
        page.screenshot(path=str(path))
        browser.close()


if __name__ == "__main__":
    main()
