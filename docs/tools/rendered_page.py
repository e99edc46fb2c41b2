"""Adjust rendered pages: formulas become MathML, and pipes in table cells lose their escape.

A browser shows MathML without a script. GitHub needs the escape in a table cell, Python-Markdown
shows it in code.
"""

import html
import re
from typing import Any

from latex2mathml.converter import convert

# As pymdownx.arithmatex marks formulas, inline and displayed.
_FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\\[(\[](?P<latex>.*?)\\[)\]]</\1>', flags=re.DOTALL
)
_CODE_IN_CELL = re.compile(r"(?<=<code>)[^<]*(?=</code>)")


def on_page_content(content: str, **_: Any) -> str:
    """Return the adjusted HTML of a page."""
    content = _CODE_IN_CELL.sub(lambda found: found[0].replace(r"\|", "|"), content)
    return _FORMULA.sub(_mathml, content)


def _mathml(found: re.Match[str]) -> str:
    display = "block" if found[1] == "div" else "inline"
    formula = convert(html.unescape(found["latex"]).strip(), display=display)
    return f'<div class="formula">{formula}</div>' if display == "block" else formula
