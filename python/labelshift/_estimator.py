from __future__ import annotations

import threading
from collections.abc import Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from labelshift import _arrays, _core
from labelshift._core import LabelShiftError
from labelshift._result import LabelShiftResult, warn

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from typing_extensions import Self


_FOLLOWING = threading.Lock()  # a stream begins once, whichever thread brings the first rows


def _number(name: str, value: Any, kind: type = Real, most: float = float("inf")) -> float:
    """An argument as the compiled module takes it; the library checks what is more than a type and a range."""
    is_kind = isinstance(value, kind)
    if is_kind and 0 <= value <= most:
        return value
    expected = "a whole number" if kind is Integral else "a number"
    limits = f"from 0 to {most}" if most < float("inf") else "that is not negative"
    raise LabelShiftError(f"{name} is {value!r}, expected {expected} {limits}")


def _flag(name: str, value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise LabelShiftError(f"{name} is {value!r}, expected True or False")


class LabelShiftEstimator(BaseEstimator):
    """Finds the label mix of new data from what a classifier says of them.

    `fit` is told of the source: held-out examples like those of the training, with labels. `estimate` finds the mix of
    target rows, `adapt` corrects their probabilities for it, and `partial_fit` follows rows that come in over time.

    Parameters
    ----------
    estimator : str
        How to estimate; `labelshift.estimators()` lists them.
    calibration : str
        What makes the classifier's probabilities right on the source: one of `labelshift.calibrations()`, or "auto",
        which chooses one by cross-validation.
    settings : dict, optional
        Of the estimator, such as {"tolerance": 1e-12} or {"lambda": 0.1}.
    level : float
        Confidence level of the intervals.
    bootstrap : int
        Intervals from so many resamplings of source and target, in place of those of asymptotic theory; 0 for none.
    seed : int
        Of all random numbers. The same seed and input give the same answer.
    smoothing : float
        Added to each class count of the source.
    logits : bool
        Whether rows are raw scores, whose softmax is the probabilities.
    renormalise : bool
        Whether to divide rows of probabilities by their sums first.
    classes : list, optional
        The names of the columns. Frames bring their own.
    bound_terms : bool
        Whether to compute the terms of Thm. 5.1 that can be computed.
    half_life : float
        Of `partial_fit`: after so many more rows a row counts half; 0 means that all rows count the same.
    alarm : float
        Of `partial_fit`: the level of both tests. They are made at each look, so many looks need a small one.

    Attributes
    ----------
    classes_ : list
        The names of the columns, or their numbers.
    result_ : LabelShiftResult
        What `estimate` or `adapt` found last.

    Examples
    --------
    >>> import numpy as np
    >>> from labelshift import LabelShiftEstimator
    >>> source_probs = np.array([[0.8, 0.2], [0.8, 0.2], [0.8, 0.2], [0.2, 0.8], [0.2, 0.8], [0.8, 0.2]] * 100)
    >>> source_labels = ["cat", "cat", "dog", "dog", "dog", "cat"] * 100
    >>> estimator = LabelShiftEstimator().fit(source_probs, source_labels)
    >>> target_probs = np.array([[0.8, 0.2]] * 300 + [[0.2, 0.8]] * 100)
    >>> print(estimator.estimate(target_probs))  # doctest: +ELLIPSIS
    class  source  target     low    high  ratio    low   high
    cat    0.5000  0.6251  0.5538  0.6933  1.250  1.076  1.415
    dog    0.5000  0.3749  0.3061  0.4465  0.750  0.600  0.906
    ...
    """

    def __init__(
        self,
        estimator: str = "mlls-sqp",
        calibration: str = "auto",
        *,
        settings: dict[str, Any] | None = None,
        level: float = 0.95,
        bootstrap: int = 0,
        seed: int = 0,
        smoothing: float = 0.0,
        logits: bool = False,
        renormalise: bool = False,
        classes: list[Any] | None = None,
        bound_terms: bool = False,
        half_life: float = 0.0,
        alarm: float = 0.001,
    ) -> None:
        self.estimator = estimator
        self.calibration = calibration
        self.settings = settings
        self.level = level
        self.bootstrap = bootstrap
        self.seed = seed
        self.smoothing = smoothing
        self.logits = logits
        self.renormalise = renormalise
        self.classes = classes
        self.bound_terms = bound_terms
        self.half_life = half_life
        self.alarm = alarm

    result_: LabelShiftResult
    classes_: list[Any]
    n_features_in_: int

    def fit(
        self,
        source_probs: ArrayLike | None = None,
        source_labels: ArrayLike | None = None,
        *,
        source_weights: ArrayLike | None = None,
        source_prior: ArrayLike | None = None,
    ) -> Self:
        """Takes the source. Nothing is computed before there is a target; `source_probs` is not copied, so leave it be.

        `source_probs` (n, m) is what the classifier says of n examples it was not trained on, and `source_labels` (n)
        are their labels: names of columns, or numbers from 0. `source_weights` (n) says how much each counts.
        `source_prior` (m) is the label mix that the classifier was trained on, if it is not that of the examples; with
        it alone the mlls estimators need no examples.
        """
        if (source_probs is None) != (source_labels is None):
            raise LabelShiftError("source_probs and source_labels belong together; give both, or source_prior alone")
        if source_probs is None and source_prior is None:
            raise LabelShiftError(
                "nothing is known of the source; give source_probs and source_labels, or source_prior"
            )
        for found in ("result_", "_correction"):  # before, of another source
            self.__dict__.pop(found, None)
        names = _arrays.class_names(self.classes)
        probs = labels = None
        if source_probs is not None:
            probs = _arrays.matrix(source_probs, self.renormalise)
            if probs.ndim == 2:
                names = self._names(source_probs, names, probs.shape[1])
                labels, names = _arrays.label_codes(source_labels, names, probs.shape[1])
        weights = _arrays.weights(source_weights)
        _core.check_fitted(probs=probs, labels=labels, weights=weights, logits=_flag("logits", self.logits))
        if self.logits and probs is not None and probs.min() >= 0 and np.allclose(probs.sum(axis=1), 1, atol=1e-3):
            said = "no number in source_probs is below 0 and every row sums to 1: these look like probabilities"
            warn([f"{said}; if they are, leave logits out"])
        prior = None if source_prior is None else _arrays.as_numbers(source_prior)
        self._source: dict[str, Any] = {
            "source_probs": probs,
            "source_labels": labels,
            "source_weights": weights,
            "source_prior": prior,
        }
        self._stream: _core.Stream | None = None
        self._names_of_columns = names
        of_a_row: Any = prior if probs is None else probs[0]
        self.n_features_in_ = int(of_a_row.size)
        self.classes_ = list(range(self.n_features_in_)) if names is None else names
        return self

    def estimate(
        self, target_probs: ArrayLike | None = None, *, target_weights: ArrayLike | None = None
    ) -> LabelShiftResult:
        """The label mix of the target rows (n, m), which is also kept as `result_`; without rows, of those that
        `partial_fit` was given. `target_weights` (n) says how much each row counts.
        """
        check_is_fitted(self)
        if target_probs is None:
            if self._stream is None:
                raise LabelShiftError("there are no rows to estimate from; give target_probs, or use partial_fit first")
            self.result_ = LabelShiftResult(self._stream.look())
            return self.result_
        report = self._analyse(self._target(target_probs), target_weights)
        self.result_ = LabelShiftResult(report)
        warn(self.result_.warnings)
        return self.result_

    def adapt(
        self, target_probs: ArrayLike, *, target_weights: ArrayLike | None = None, if_fits: bool = False
    ) -> Any:
        """The probabilities of the target rows (n, m), corrected for the mix that is estimated from them: p_te(y | x),
        which is proportional to f_y(x) r_y. A frame if they came as one, else an array in their precision.

        `result_` says what was found and, as its `adaptation`, what that changed. With `if_fits` the probabilities are
        left alone unless the test of the label-shift assumption passes.

        >>> import numpy as np
        >>> from labelshift import LabelShiftEstimator
        >>> source_probs = np.array([[0.8, 0.2], [0.8, 0.2], [0.8, 0.2], [0.2, 0.8], [0.2, 0.8], [0.8, 0.2]] * 100)
        >>> estimator = LabelShiftEstimator().fit(source_probs, [0, 0, 1, 1, 1, 0] * 100)
        >>> corrected = estimator.adapt([[0.8, 0.2]] * 200 + [[0.2, 0.8]] * 200)
        >>> corrected[0].round(2), estimator.result_.target_prior.round(2)
        (array([0.5, 0.5]), array([0.25, 0.75]))
        """
        check_is_fitted(self)
        probs = self._target(target_probs)
        report = self._analyse(probs, target_weights)
        corrected = report.correct(probs, self.logits, if_fits)
        self.result_ = LabelShiftResult(report)
        self._correction = report.correction()
        warn(self.result_.warnings)
        return _arrays.like(target_probs, corrected)

    def correct(self, probs: ArrayLike) -> np.ndarray:
        """Other rows (n, m), corrected for the mix that `adapt` found last."""
        check_is_fitted(self, "_correction", msg="adapt to a target first, so that there is a mix to correct for")
        return self._correction.apply(self._target(probs), self.logits)

    def partial_fit(self, target_probs: ArrayLike) -> Self:
        """Takes some more rows (n, m) of a target that comes in over time; `estimate()` says what is known then.

        Memory does not grow with the number of rows, and how they are cut into batches changes nothing. `fit` forgets
        them.

        >>> import numpy as np
        >>> from labelshift import LabelShiftEstimator
        >>> source_probs = np.array([[0.8, 0.2], [0.6, 0.4], [0.3, 0.7], [0.1, 0.9]] * 100)
        >>> estimator = LabelShiftEstimator().fit(source_probs, [0, 0, 1, 1] * 100)
        >>> for batch in np.split(source_probs, 10):
        ...     _ = estimator.partial_fit(batch)
        >>> result = estimator.estimate()
        >>> result.rows, result.alarm
        (400, False)
        """
        check_is_fitted(self)
        if self._source["source_probs"] is None:
            raise LabelShiftError("partial_fit needs source_probs and source_labels; fit on them first")
        probs = self._target(target_probs)
        with _FOLLOWING:
            begins = self._stream is None
            if self._stream is None:
                self._stream = _core.follow(
                    **self._source,
                    **self._how(),
                    half_life=_number("half_life", self.half_life),
                    alarm=_number("alarm", self.alarm, most=1.0),
                )
        if begins:
            warn(self._stream.warnings())
        self._stream.add(probs, self.logits)
        return self

    def _analyse(self, target_probs: np.ndarray, target_weights: ArrayLike | None) -> _core.Report:
        return _core.analyse(
            **self._source,
            **self._how(),
            target_probs=target_probs,
            target_weights=_arrays.weights(target_weights),
            bootstrap=int(_number("bootstrap", self.bootstrap, Integral, 10**6)),
            seed=int(_number("seed", self.seed, Integral, 2**64 - 1)),
            bound_terms=bool(self.bound_terms),
        )

    def _how(self) -> dict[str, Any]:
        if self.settings is not None and not isinstance(self.settings, Mapping):
            raise LabelShiftError(f"settings is {self.settings!r}, expected a dict such as {{'tolerance': 1e-12}}")
        return {
            "classes": [str(name) for name in self.classes_],
            "named": self._names_of_columns is not None,
            "logits": _flag("logits", self.logits),
            "estimator": str(self.estimator),
            "settings": {str(name): str(value) for name, value in (self.settings or {}).items()},
            "calibration": str(self.calibration),
            "level": _number("level", self.level, most=1.0),
            "smoothing": _number("smoothing", self.smoothing),
        }

    def _target(self, target_probs: ArrayLike) -> np.ndarray:
        probs = _arrays.matrix(target_probs, self.renormalise)
        if probs.ndim == 2:
            names = self._names_of_columns
            if names is None and set(_arrays.frame_columns(target_probs) or []) == set(self.classes_):
                names = self.classes_  # the numbers of columns, in another order
            self._names(target_probs, names, probs.shape[1])
        return probs

    def _names(self, values: ArrayLike, names: list[Any] | None, columns: int) -> list[Any] | None:
        """The names of the columns of a frame, or those that are known. They must be the same where there are both."""
        found = _arrays.frame_columns(values)
        if names is not None and len(names) != columns:
            raise LabelShiftError(f"found {columns} columns, expected {len(names)}, one for each class")
        if found is None or found == names:
            return names
        if names is not None:
            column = next(i for i, name in enumerate(found) if name != names[i])
            raise LabelShiftError(
                f"column {column + 1} of the frame is {found[column]!r}, expected {names[column]!r}: columns must be "
                "the same classes in the same order; choose them by frame[estimator.classes_]"
            )
        return found

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        if state.get("_stream") is not None:
            raise TypeError("rows that partial_fit was given cannot be pickled; pickle the estimator before them")
        return state
