"""Label shift: estimate the label mix of new data, say how sure the answer is, correct predictions for it.

A classifier was trained on one mix of labels and now meets another. What it says of held-out source examples and of
new, unlabelled ones is enough to find the new mix:

>>> import numpy as np
>>> import labelshift
>>> rng = np.random.default_rng(0)
>>> def said(n, share_of_cats):  # a classifier that knows cats from dogs, and what they are
...     is_dog = rng.random(n) > share_of_cats
...     cat = 1 / (1 + np.exp(2 * rng.normal(2 * is_dog - 1, 1.0)))
...     return np.column_stack([cat, 1 - cat]), is_dog.astype(int)
>>> source_probs, source_labels = said(2000, share_of_cats=0.5)
>>> target_probs, hidden = said(2000, share_of_cats=0.9)
>>> estimator = labelshift.LabelShiftEstimator().fit(source_probs, source_labels)
>>> estimator.estimate(target_probs).target_prior.round(1)
array([0.9, 0.1])

`LabelShiftEstimator` works on probabilities, `LabelShiftClassifier` is a wrapper around a scikit-learn classifier, and
`entropy_regularised_loss` is the loss of a PyTorch classifier whose probabilities are fit for both. scikit-learn is
loaded when one of the first two is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from labelshift import _core
from labelshift._core import LabelShiftError, __version__
from labelshift._loss import entropy_regularised_loss
from labelshift._result import LabelShiftResult, LabelShiftWarning

if TYPE_CHECKING:
    from labelshift._classifier import LabelShiftClassifier
    from labelshift._estimator import LabelShiftEstimator

__all__ = [
    "LabelShiftClassifier",
    "LabelShiftError",
    "LabelShiftEstimator",
    "LabelShiftResult",
    "LabelShiftWarning",
    "__version__",
    "calibrations",
    "entropy_regularised_loss",
    "estimators",
]

_NEEDS_SKLEARN = {"LabelShiftClassifier": "_classifier", "LabelShiftEstimator": "_estimator"}


def estimators() -> dict[str, str]:
    """Every estimator there is, with one line on each; the first is the default.

    >>> import labelshift
    >>> list(labelshift.estimators())[0]
    'mlls-sqp'
    """
    return dict(_core.estimators())


def calibrations() -> dict[str, str]:
    """Every calibration there is, with one line on each; "auto", the default, chooses one of them.

    >>> import labelshift
    >>> list(labelshift.calibrations())
    ['none', 'ts', 'bcts', 'vs', 'matrix']
    """
    return dict(_core.calibrations())


def __getattr__(name: str) -> Any:
    if name not in _NEEDS_SKLEARN:
        raise AttributeError(f"module 'labelshift' has no attribute {name!r}")
    value = getattr(import_module(f"labelshift.{_NEEDS_SKLEARN[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
