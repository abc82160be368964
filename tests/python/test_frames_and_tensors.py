import numpy as np
import pandas as pd
import pytest
import torch

from labelshift import LabelShiftClassifier, LabelShiftError, LabelShiftEstimator, _arrays, entropy_regularised_loss


@pytest.fixture
def frames(fashion):
    def frame(probs):
        return pd.DataFrame(probs, columns=fashion.classes, index=[f"row {i}" for i in range(len(probs))])

    return frame(fashion.source_probs), pd.Series(fashion.source_labels), frame(fashion.target_probs)


def test_frames_keep_their_class_names(fashion, frames):
    source, labels, target = frames
    estimator = LabelShiftEstimator().fit(source, labels)
    assert estimator.classes_ == fashion.classes
    corrected = estimator.adapt(target)
    expected = LabelShiftEstimator(classes=fashion.classes).fit(fashion.source_probs, fashion.source_labels)
    assert isinstance(corrected, pd.DataFrame)
    assert corrected.columns.equals(target.columns) and corrected.index.equals(target.index)
    assert np.array_equal(corrected.to_numpy(), expected.adapt(fashion.target_probs))
    assert estimator.result_.to_dict() == expected.result_.to_dict()
    table = estimator.result_.to_frame()
    assert table.index.tolist() == fashion.classes
    assert table.loc["Coat", "target_prior"] == estimator.result_.target_prior[4]
    assert list(table)[:3] == ["source_prior", "target_prior", "ratio"] and table.shape == (10, 7)


def test_columns_of_frames_must_be_the_same_in_the_same_order(frames):
    source, labels, target = frames
    estimator = LabelShiftEstimator().fit(source, labels)
    sentence = "column 1 of the frame is 'Ankle boot', expected 'T-shirt/top'.*frame.estimator.classes_."
    with pytest.raises(LabelShiftError, match=sentence):
        estimator.estimate(target[target.columns[::-1]])
    reordered = target[target.columns[::-1]][estimator.classes_]
    assert estimator.estimate(reordered).to_dict() == estimator.estimate(target).to_dict()
    with pytest.raises(LabelShiftError, match="found 9 columns, expected 10"):
        estimator.estimate(target.drop(columns="Bag"))
    with pytest.raises(LabelShiftError, match="column 2 of the frame is 'Trouser', expected 'Hose'"):
        LabelShiftEstimator(classes=["T-shirt/top", "Hose"] + list(source)[2:]).fit(source, labels)


def test_columns_named_by_numbers_are_the_labels(fashion, frames):
    source, labels, target = frames
    codes = np.array([fashion.classes.index(label) for label in labels])
    numbers = [10, 3, 7, 1, 2, 4, 5, 6, 8, 9]
    renamed = source.set_axis(numbers, axis=1)
    estimator = LabelShiftEstimator().fit(renamed, np.take(numbers, codes))
    result = estimator.estimate(target.to_numpy())
    assert result.classes == [str(n) for n in numbers]
    assert np.array_equal(result.target_prior, LabelShiftEstimator().fit(source, labels).estimate(target).target_prior)
    plain = LabelShiftEstimator().fit(pd.DataFrame(fashion.source_probs), codes)
    assert plain.classes_ == list(range(10))


def test_frames_of_one_type_are_not_copied(frames):
    values = np.ascontiguousarray(frames[2].to_numpy())
    frame = pd.DataFrame(values, columns=frames[2].columns)
    assert np.shares_memory(_arrays.matrix(frame), values)


def test_a_classifier_takes_frames():
    rng = np.random.default_rng(0)
    from sklearn.linear_model import LogisticRegression

    def draw(n, share):
        y = np.where(rng.random(n) < share, "cat", "dog")
        X = pd.DataFrame(rng.normal((y == "dog")[:, None] * [2.0, 1.0], 1.0), columns=["weight", "bark"])
        return X, pd.Series(y)

    X, y = draw(600, 0.5)
    X_new, _ = draw(600, 0.9)
    classifier = LabelShiftClassifier(LogisticRegression()).fit(X, y).adapt(X_new)
    assert abs(classifier.result_.target_prior[0] - 0.9) < 0.05
    assert classifier.feature_names_in_.tolist() == ["weight", "bark"] and classifier.n_features_in_ == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors_share_their_memory(fashion, dtype):
    tensor = torch.tensor(fashion.target_probs, dtype=dtype, requires_grad=True)
    taken = _arrays.matrix(tensor)
    assert taken.__array_interface__["data"][0] == tensor.data_ptr()
    estimator = LabelShiftEstimator().fit(fashion.source_probs, torch.tensor(codes_of(fashion)))
    assert estimator.estimate(tensor).to_dict() == estimator.estimate(taken).to_dict()
    with torch.no_grad():
        tensor[7] = 0.5
    with pytest.raises(LabelShiftError, match="row 8: probabilities sum to 5"):
        estimator.estimate(tensor)


def codes_of(fashion):
    return [fashion.classes.index(label) for label in fashion.source_labels]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_tensors_of_half_precision_are_widened(fashion, dtype):
    logits = torch.tensor(np.log(np.clip(fashion.target_probs, 1e-4, 1)), dtype=dtype)
    assert _arrays.matrix(logits).dtype == np.float32
    source = np.log(np.clip(fashion.source_probs, 1e-4, 1))
    estimator = LabelShiftEstimator(logits=True).fit(source, codes_of(fashion))
    assert np.allclose(estimator.estimate(logits).target_prior, estimator.estimate(logits.float()).target_prior)


def test_the_loss_is_cross_entropy_plus_zeta_times_negative_entropy():
    logits = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = torch.tensor([0, 2, 1, 1, 0, 2])
    phi = logits.softmax(dim=1)
    expected = torch.nn.functional.cross_entropy(logits, labels) + 0.7 * (phi * phi.log()).sum(dim=1).mean()
    loss = entropy_regularised_loss(logits, labels, zeta=0.7)
    assert torch.allclose(loss, expected)
    (found,) = torch.autograd.grad(loss, logits)
    (wanted,) = torch.autograd.grad(expected, logits)
    assert torch.allclose(found, wanted)
    assert torch.isfinite(entropy_regularised_loss(torch.tensor([[1000.0, -1000.0]]), torch.tensor([0])))
