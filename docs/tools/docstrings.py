"""Prepare docstrings for the reference: examples become code blocks."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", flags=re.MULTILINE)
_FORMULA = re.compile(r":math:`([^`]*)`")


class DocstringsAsMarkdown(griffe.Extension):
    """Fence doctest examples and mark formulas in every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring is not None:
            text = _EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
            obj.docstring.value = _FORMULA.sub(r"$\1$", text)
