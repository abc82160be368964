import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, ShuffleSplit, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import (
    check_estimator_get_tags_default_keys,
    check_get_params_invariance,
    check_no_attributes_set_in_init,
    check_parameters_default_constructible,
    check_set_params,
    parametrize_with_checks,
)

from labelshift import LabelShiftClassifier, LabelShiftError, LabelShiftEstimator

# Of the checks for LabelShiftEstimator those apply that feed no data: the others fit on matrices of random numbers,
# which are no probabilities.
APPLY = [
    check_estimator_get_tags_default_keys,
    check_get_params_invariance,
    check_no_attributes_set_in_init,
    check_parameters_default_constructible,
    check_set_params,
]


@pytest.mark.parametrize("check", APPLY, ids=lambda check: check.__name__)
def test_the_estimator_keeps_scikit_learns_conventions(check):
    check("LabelShiftEstimator", LabelShiftEstimator())


@parametrize_with_checks([LabelShiftClassifier(LogisticRegression())])
def test_the_classifier_passes_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    """Half of the digits to fit on, and a sample of the others in which zeros and ones are common."""
    X, y = load_digits(return_X_y=True)
    X_train, X_rest, y_train, y_rest = train_test_split(X, y, train_size=0.5, stratify=y, random_state=0)
    rows = np.concatenate([np.flatnonzero(y_rest == c)[: 85 if c < 2 else 15] for c in range(10)])
    return X_train, y_train, X_rest[rows], y_rest[rows]


def weak():
    """A classifier that errs enough for a correction to matter."""
    return make_pipeline(StandardScaler(), GaussianNB(var_smoothing=0.3))


def test_adapting_corrects_predictions_for_the_new_mix(digits):
    X, y, X_new, y_new = digits
    classifier = LabelShiftClassifier(weak()).fit(X, y)
    own = clone(classifier.estimator).fit(X, y)
    assert np.array_equal(classifier.predict_proba(X_new), own.predict_proba(X_new))
    before = classifier.score(X_new, y_new)
    assert classifier.adapt(X_new) is classifier
    truth = np.bincount(y_new) / len(y_new)
    assert np.abs(classifier.result_.target_prior - truth).sum() < 0.1  # of 290 rows
    assert classifier.score(X_new, y_new) > before
    probs = classifier.predict_proba(X_new)
    assert np.allclose(probs.sum(axis=1), 1) and np.array_equal(probs.argmax(axis=1), classifier.predict(X_new))
    assert np.array_equal(probs, classifier.shift_.correct(own.predict_proba(X_new)))
    copy = pickle.loads(pickle.dumps(classifier))
    assert np.array_equal(copy.predict_proba(X_new), probs)
    assert np.array_equal(classifier.fit(X, y).predict_proba(X_new), own.predict_proba(X_new))  # fit forgets the target


def test_source_and_target_are_seen_with_the_same_eyes(digits):
    """A tree is surer of an example the more others it has seen: one fitted on all examples makes another impression of
    new digits than those of cross-validation make of old ones, which the test of the fit takes for a change."""
    X, y = load_digits(return_X_y=True)
    rejected = 0
    for seed in range(10):
        old, new = train_test_split(np.arange(len(y)), train_size=600, stratify=y, random_state=seed)
        tree = DecisionTreeClassifier(min_samples_leaf=3, random_state=0)
        result = LabelShiftClassifier(tree).fit(X[old], y[old]).adapt(X[new[:400]]).result_
        rejected += result.fit_test.p_value < 0.05
    assert rejected <= 2  # of ten at the 5 % level: more than two are there in one case of 90


def test_a_part_of_the_examples_can_lack_a_class():
    X = np.r_[np.zeros(40), np.ones(40), [2.0]][:, None]
    y = ["a"] * 40 + ["b"] * 40 + ["c"]
    with pytest.warns(UserWarning, match="least populated class"):
        classifier = LabelShiftClassifier(GaussianNB(var_smoothing=0.01)).fit(X, y)
    assert classifier.classes_.tolist() == ["a", "b", "c"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert classifier.adapt(X).predict_proba(X).shape == (81, 3)


def test_examples_can_be_held_out_once(digits):
    X, y, X_new, y_new = digits
    once = ShuffleSplit(1, test_size=0.25, random_state=0)
    classifier = LabelShiftClassifier(weak(), cv=once).fit(X, y).adapt(X_new)
    assert len(classifier.shift_._source["source_labels"]) == 225
    assert np.abs(classifier.result_.target_prior - np.bincount(y_new) / len(y_new)).sum() < 0.2


def test_labels_can_be_words(digits):
    X, y, X_new, y_new = digits
    words = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
    classifier = LabelShiftClassifier(weak()).fit(X, words[y]).adapt(X_new)
    numbers = LabelShiftClassifier(weak()).fit(X, y).adapt(X_new)
    assert classifier.result_.classes == sorted(words)
    found = dict(zip(classifier.result_.classes, classifier.result_.target_prior))
    assert np.allclose([found[word] for word in words], numbers.result_.target_prior, atol=1e-6)
    assert np.mean(classifier.predict(X_new) == words[y_new]) == np.mean(numbers.predict(X_new) == y_new)


def test_a_fitted_classifier_learns_its_source_from_examples_it_has_not_seen(digits):
    X, y, X_new, y_new = digits
    X_fit, X_held, y_fit, y_held = train_test_split(X, y, stratify=y, random_state=0)
    fitted = weak().fit(X_fit, y_fit)
    classifier = LabelShiftClassifier(fitted, cv="prefit").fit(X_held, y_held).adapt(X_new)
    assert classifier.estimator_ is fitted
    assert np.abs(classifier.result_.target_prior - np.bincount(y_new) / len(y_new)).sum() < 0.15
    with pytest.raises(NotFittedError):
        LabelShiftClassifier(weak(), cv="prefit").fit(X_held, y_held)


def test_it_works_in_a_pipeline_and_in_a_grid_search(digits):
    X, y, X_new, y_new = digits
    pipeline = make_pipeline(StandardScaler(), LabelShiftClassifier(GaussianNB(), cv=3))
    search = GridSearchCV(
        pipeline, {"labelshiftclassifier__estimator__var_smoothing": [1e-9, 0.1, 1.0]}, cv=3, scoring="neg_log_loss"
    ).fit(X, y)
    best = search.best_estimator_
    before = best.score(X_new, y_new)
    best[-1].adapt(best[:-1].transform(X_new))
    assert best.score(X_new, y_new) > before
    assert clone(best)[-1].get_params()["estimator__var_smoothing"] == search.best_params_[
        "labelshiftclassifier__estimator__var_smoothing"
    ]


def test_settings_of_the_estimate_are_parameters(digits):
    X, y, X_new, _ = digits
    classifier = LabelShiftClassifier(weak(), shift=LabelShiftEstimator("bbse"))
    classifier.set_params(shift__calibration="ts").fit(X, y).adapt(X_new)
    assert classifier.result_.estimator == "bbse" and classifier.result_.calibration == "ts"
    assert not hasattr(classifier.shift, "classes_")  # what was passed is left alone


def test_predictions_are_left_alone_where_a_label_shift_does_not_fit(digits):
    X, y, X_new, _ = digits
    classifier = LabelShiftClassifier(weak()).fit(X, y)
    noisy = X_new + np.random.default_rng(0).normal(0, 8, X_new.shape)
    with pytest.warns(UserWarning, match="left alone"):
        classifier.adapt(noisy, if_fits=True)
    assert np.array_equal(classifier.predict_proba(X_new), classifier.estimator_.predict_proba(X_new))


def test_weights_of_examples_count_in_the_classifier_and_in_the_source(digits):
    X, y, X_new, _ = digits
    weights = np.where(y < 2, 4.0, 1.0)
    classifier = LabelShiftClassifier(GaussianNB(var_smoothing=0.1)).fit(X, y, sample_weight=weights)
    expected = np.bincount(y, weights) / weights.sum()
    assert np.allclose(classifier.adapt(X_new).result_.source_prior, expected, atol=0.02)
    assert np.allclose(classifier.estimator_.class_prior_, expected)


def test_a_classifier_without_probabilities_is_refused_in_its_own_words(digits):
    from sklearn.svm import LinearSVC

    with pytest.raises(AttributeError, match="predict_proba"):
        LabelShiftClassifier(LinearSVC()).fit(digits[0], digits[1])
    with pytest.raises(NotFittedError):
        LabelShiftClassifier(weak()).adapt(digits[2])
    with pytest.raises(LabelShiftError):
        LabelShiftClassifier(weak(), shift=LabelShiftEstimator("blse")).fit(digits[0], digits[1]).adapt(digits[2])
