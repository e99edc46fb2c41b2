"""The models that a search tried, as a list that prints as a table."""

from typing import Any, final

import pandas as pd

_FIGURES = {"weight": "%.3f", "score": "%.3f", "answers": "%.4f", "seconds": "%.1f"}


@final
class MemberList(list[dict[str, Any]]):
    """Options, weight, score and cost of each model fitted; `print` shows them by weight.

    >>> print(MemberList([{"tensor": "ht", "width": 8, "weight": 1.0, "score": -2.5}]))
    tensor width weight  score
        ht     8  1.000 -2.500
    """

    @property
    def frame(self) -> pd.DataFrame:
        """The members as a table, the heaviest first."""
        table = pd.DataFrame(list(self))
        return table.sort_values("weight", ascending=False, kind="stable") if len(self) else table

    def __repr__(self) -> str:
        return self._shown().to_string(index=False) if self else "no members: a single model"

    def _repr_html_(self) -> str:
        return str(self._shown().to_html(index=False)) if self else f"<p>{self}</p>"

    def _shown(self) -> pd.DataFrame:
        def text(name: str, value: Any) -> str:
            if pd.isna(value):
                return ""
            if name in _FIGURES:
                return _FIGURES[name] % value
            # A column that some members lack holds its whole numbers as floats.
            return (
                str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
            )

        shown = self.frame.astype(object)
        for name in shown.columns:
            shown[name] = [text(name, value) for value in shown[name]]
        return shown
