"""Turn the formulas of a page into MathML, so that a browser needs no script to show them."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

# As pymdownx.arithmatex marks formulas, inline and displayed.
_FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\\[(\[](?P<latex>.*?)\\[)\]]</\1>', flags=re.DOTALL
)


def on_page_content(content: str, **_: Any) -> str:
    """Replace the formulas of a rendered page."""
    return _FORMULA.sub(_mathml, content)


def _mathml(found: re.Match[str]) -> str:
    display = "block" if found[1] == "div" else "inline"
    formula = convert(html.unescape(found["latex"]).strip(), display=display)
    return f'<div class="formula">{formula}</div>' if display == "block" else formula
