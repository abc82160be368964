from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, _num_samples, check_is_fitted, column_or_1d, indexable

from labelshift._core import LabelShiftError
from labelshift._estimator import LabelShiftEstimator

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from typing_extensions import Self


class LabelShiftClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """A scikit-learn classifier that adapts to the label mix of new data.

    `fit` fits the classifier on all examples, and once more for each part that cross-validation holds out, to learn how
    right it is. `adapt` estimates the label mix of new, unlabelled examples from what the classifiers of
    cross-validation say, each of some of them: source and target are then seen with the same eyes, so that the tests
    and intervals hold. From then on `predict_proba` and `predict` are corrected for that mix.

    Parameters
    ----------
    estimator : classifier
        Any classifier with `predict_proba`.
    shift : LabelShiftEstimator, optional
        How to estimate and calibrate; the default one if there is none.
    cv : int, splitter or "prefit"
        How examples are held out, as for `sklearn.model_selection.cross_validate`. With "prefit" the estimator has
        been fitted, and `fit` takes examples that it has not seen.

    Attributes
    ----------
    classes_ : array
        The labels, in the order of the columns of `predict_proba`.
    estimator_ : classifier
        The one that was fitted on all examples.
    shift_ : LabelShiftEstimator
        The one that knows the source.
    result_ : LabelShiftResult
        What `adapt` found last.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from labelshift import LabelShiftClassifier
    >>> rng = np.random.default_rng(0)
    >>> def draw(cats, dogs):
    ...     return np.r_[rng.normal(-1, 1, (cats, 2)), rng.normal(1, 1, (dogs, 2))], ["cat"] * cats + ["dog"] * dogs
    >>> classifier = LabelShiftClassifier(LogisticRegression()).fit(*draw(500, 500))
    >>> X_new, y_new = draw(900, 100)
    >>> before = classifier.score(X_new, y_new)
    >>> classifier.adapt(X_new).result_.target_prior.round(1)
    array([0.9, 0.1])
    >>> classifier.score(X_new, y_new) > before
    True
    """

    def __init__(self, estimator: Any, *, shift: LabelShiftEstimator | None = None, cv: Any = 5) -> None:
        self.estimator = estimator
        self.shift = shift
        self.cv = cv

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fits the classifier on all examples, and learns from held-out ones how right it is."""
        if y is None:
            raise LabelShiftError("a classifier requires y to be passed, but the target y is None; give labels of X")
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        (X,) = indexable(X)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        if isinstance(self.cv, str) and self.cv == "prefit":
            check_is_fitted(self.estimator)
            self.estimator_ = self.estimator
            self._models = [self.estimator]
            held = [np.arange(_num_samples(X))]
        else:
            splits = list(check_cv(self.cv, y, classifier=True).split(X, y))
            held = [test for _, test in splits]
            self._models = [self._fitted(X, y, weights, train) for train, _ in splits]
            self.estimator_ = self._fitted(X, y, weights, np.arange(len(y)))
        self.classes_ = self.estimator_.classes_
        said = [self._probs(model, _safe_indexing(X, rows)) for model, rows in zip(self._models, held)]
        rows = np.concatenate(held)
        shift = LabelShiftEstimator() if self.shift is None else clone(self.shift)
        self.shift_ = shift.set_params(classes=self.classes_.tolist())
        self.shift_.fit(np.concatenate(said), y[rows], source_weights=None if weights is None else weights[rows])
        self._is_adapted = False
        return self

    def adapt(self, X: Any, *, if_fits: bool = False) -> Self:
        """Estimates the label mix of new examples, for which predictions are corrected from now on; `result_` has it.

        With `if_fits` predictions are corrected only if the test of the label-shift assumption passes.
        """
        check_is_fitted(self)
        (X,) = indexable(X)
        part = np.random.default_rng(self.shift_.seed).permutation(_num_samples(X)) % len(self._models)
        said = np.empty((len(part), len(self.classes_)))
        for number, model in enumerate(self._models):
            rows = np.flatnonzero(part == number)
            if len(rows):
                said[rows] = self._probs(model, _safe_indexing(X, rows))
        self.shift_.adapt(said, if_fits=if_fits)
        self.result_ = self.shift_.result_
        self._is_adapted = True
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n, m) for the mix that `adapt` found; before that, the classifier's own."""
        check_is_fitted(self)
        probs = self.estimator_.predict_proba(X)
        return self.shift_.correct(probs) if self._is_adapted else probs

    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of each example."""
        columns = self.predict_proba(X).argmax(axis=1)
        return self.classes_[columns]

    def _fitted(self, X: Any, y: np.ndarray, weights: np.ndarray | None, rows: np.ndarray) -> Any:
        arguments = {} if weights is None else {"sample_weight": weights[rows]}
        return clone(self.estimator).fit(_safe_indexing(X, rows), y[rows], **arguments)

    def _probs(self, model: Any, X: Any) -> np.ndarray:
        """What a model says, in the columns of all classes: a part of the examples can lack some."""
        said = np.asarray(model.predict_proba(X))
        if len(model.classes_) == len(self.classes_):
            return said
        probs = np.zeros((len(said), len(self.classes_)), said.dtype)
        probs[:, np.searchsorted(self.classes_, model.classes_)] = said
        return probs

    @property
    def n_features_in_(self) -> int:
        return self.estimator_.n_features_in_

    @property
    def feature_names_in_(self) -> np.ndarray:
        return self.estimator_.feature_names_in_
