from __future__ import annotations

import copy
import json
import os
import sys
import warnings as python_warnings
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from labelshift import _core

# What a result has only where it was asked for.
_ABSENT: dict[str, Any] = {"adaptation": None, "bootstrap": None, "bound_terms": None, "warnings": []}


class LabelShiftWarning(UserWarning):
    """A result is there, but something makes it worth little. The message says what, and what to do about it."""


class LabelShiftResult:
    """What was found of a target: its label mix with intervals, how it was found, and what the tests say.

    Its attributes are the keys of the command's JSON. Those with a number a class are arrays in the order of `classes`:
    `source_prior`, `target_prior` (the estimate), `target_prior_low` and `target_prior_high` (the ends of its
    intervals), and of a whole estimate `ratio`, `ratio_low` and `ratio_high`. `verdict` is "moved", "not-moved",
    "does-not-fit", "wrong-source" or "untested", and `verdict_text` says it in words. Others, such as `shift_test`,
    have attributes of their own:

    >>> import numpy as np, labelshift
    >>> probs = np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.1, 0.9]] * 50)
    >>> result = labelshift.LabelShiftEstimator().fit(probs, [0, 1, 0, 1] * 50).estimate(probs)
    >>> result.verdict, result.shift_test.p_value
    ('not-moved', 1.0)

    Printed, it is the table of the command, and in a notebook its picture.
    """

    classes: list[str]
    source_prior: np.ndarray
    target_prior: np.ndarray
    target_prior_low: np.ndarray
    target_prior_high: np.ndarray
    level: float
    verdict: str
    verdict_text: str
    shift_test: SimpleNamespace
    fit_test: SimpleNamespace | None

    def __init__(self, shown: _core.Report | _core.Look) -> None:
        self._shown: Any = shown
        self._values: dict[str, Any] = json.loads(shown.json())

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("_values", {})
        if name in values:
            value = _as_attribute(name, values[name])
        elif name in _ABSENT and not name.startswith("__"):
            value = copy.copy(_ABSENT[name])
        else:
            raise AttributeError(f"a result has no {name!r}; it has {', '.join(values)}")
        self.__dict__[name] = value
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._values, *_ABSENT})

    def to_dict(self) -> dict[str, Any]:
        """The same as the command's JSON: dicts, lists, numbers and text."""
        return copy.deepcopy(self._values)

    def to_frame(self) -> pd.DataFrame:
        """A pandas frame with a row a class: its share in the source and in the target, and what else is known."""
        import pandas as pd

        numbers = [key for key, value in self._values.items() if key != "classes" and isinstance(value, list)]
        columns = {key: getattr(self, key) for key in numbers if len(self._values[key]) == len(self.classes)}
        return pd.DataFrame(columns, index=pd.Index(self.classes, name="class"))

    def __repr__(self) -> str:
        return self._shown.text().rstrip("\n")

    def _repr_svg_(self) -> str:
        return self._shown.svg()

    def __getstate__(self) -> dict[str, Any]:
        return {"values": self._values, "shown": _Shown(self._shown.text(), self._shown.svg())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._values, self._shown = state["values"], state["shown"]


class _Shown:
    """How a result looks, when it has been pickled."""

    def __init__(self, text: str, svg: str) -> None:
        self._text, self._svg = text, svg

    def text(self) -> str:
        return self._text

    def svg(self) -> str:
        return self._svg


def _as_attribute(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return SimpleNamespace(**{key: _as_attribute(key, part) for key, part in value.items()})
    if isinstance(value, list) and name not in ("classes", "warnings"):
        if value and isinstance(value[0], dict):
            return [_as_attribute("", part) for part in value]
        return np.array(value, dtype=float)  # null, which stands for no finite number, becomes NaN
    return value


def warn(sentences: list[str]) -> None:
    """Issues warnings at the line that called this package."""
    frame, level = sys._getframe(), 1
    while frame.f_back and os.path.dirname(frame.f_code.co_filename) == os.path.dirname(__file__):
        frame, level = frame.f_back, level + 1
    for sentence in sentences:
        python_warnings.warn(sentence, LabelShiftWarning, stacklevel=level)
