import json
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import labelshift
from labelshift import LabelShiftError, LabelShiftEstimator, LabelShiftResult, LabelShiftWarning, _arrays, _core


def fitted(fashion, **params):
    return LabelShiftEstimator(classes=fashion.classes, **params).fit(fashion.source_probs, fashion.source_labels)


ALL = object()


def refit(fashion, classes=ALL, labels=ALL, **known):
    classes = fashion.classes if classes is ALL else classes
    labels = fashion.source_labels if labels is ALL else labels
    return LabelShiftEstimator(classes=classes).fit(fashion.source_probs, labels, **known)


def files(fashion):
    folder = fashion.folder
    return [
        *("--source-probs", folder / "source_probs.npy", "--source-labels", folder / "source_labels.csv"),
        *("--target-probs", folder / "target_probs.npy", "--classes", folder / "classes.txt"),
    ]


def test_a_result_is_the_json_of_the_command_and_prints_as_its_table(fashion, command):
    result = fitted(fashion).estimate(fashion.target_probs)
    said = subprocess.run([command, "estimate", *files(fashion), "--format", "json"], capture_output=True, check=True)
    assert result.to_dict() == json.loads(said.stdout)
    table = subprocess.run([command, "estimate", *files(fashion)], capture_output=True, check=True, text=True)
    assert repr(result) + "\n" == table.stdout


def test_settings_reach_the_library_as_those_of_the_command_do(fashion, command):
    options = ["--estimator", "mlls-sgd", "--set", "epochs=3", "--seed", "7", "--calibration", "ts", "--level", "0.9"]
    options += ["--bootstrap", "100", "--bound", "--smoothing", "2"]
    said = subprocess.run(
        [command, "estimate", *files(fashion), *options, "--format", "json"], capture_output=True, check=True
    )
    result = fitted(
        fashion,
        estimator="mlls-sgd",
        settings={"epochs": 3},
        seed=7,
        calibration="ts",
        level=0.9,
        bootstrap=100,
        bound_terms=True,
        smoothing=2,
    )
    with pytest.warns(LabelShiftWarning, match="stopped at its limit"):
        result = result.estimate(fashion.target_probs)
    found = result.to_dict()
    found.pop("warnings")  # each says what to do in its own words
    expected = json.loads(said.stdout)
    expected.pop("warnings")
    assert found == expected


def test_attributes_are_the_keys_of_the_json(fashion):
    result = fitted(fashion).estimate(fashion.target_probs)
    found = result.to_dict()
    assert set(found) <= set(dir(result))
    for key, value in found.items():
        attribute = getattr(result, key)
        if key in ("classes", "warnings") or not isinstance(value, (list, dict)):
            assert attribute == value
        elif isinstance(value, list):
            assert isinstance(attribute, np.ndarray) and attribute.tolist() == value
    assert result.shift_test.p_value == found["shift_test"]["p_value"]
    assert result.calibration_choice.candidates[0].name == "none"
    assert result.bootstrap is None and result.warnings == []
    with pytest.raises(AttributeError, match="no 'target_piror'; it has estimator"):
        result.target_piror
    found["classes"].clear()
    assert result.to_dict()["classes"] == fashion.classes


def test_a_result_has_a_picture_in_which_names_are_text(fashion):
    names = ["<script>alert(1)</script>", *fashion.classes[1:]]
    labels = [names[fashion.classes.index(label)] for label in fashion.source_labels]
    result = LabelShiftEstimator(classes=names).fit(fashion.source_probs, labels).estimate(fashion.target_probs)
    svg = result._repr_svg_()
    assert svg.lstrip().startswith("<svg") and "&lt;script&gt;" in svg and "<script>" not in svg


def test_results_and_fitted_estimators_can_be_pickled(fashion):
    estimator = fitted(fashion)
    corrected = estimator.adapt(fashion.target_probs)
    copy = pickle.loads(pickle.dumps(estimator))
    assert np.array_equal(copy.correct(fashion.target_probs), corrected)
    assert repr(copy.result_) == repr(estimator.result_)
    assert copy.result_._repr_svg_() == estimator.result_._repr_svg_()
    assert copy.result_.to_dict() == estimator.result_.to_dict()
    assert np.array_equal(copy.result_.target_prior, estimator.result_.target_prior)
    assert copy.estimate(fashion.target_probs).to_dict() == estimator.estimate(fashion.target_probs).to_dict()
    with pytest.raises(TypeError, match="partial_fit"):
        pickle.dumps(estimator.partial_fit(fashion.target_probs))


def test_adapt_gives_the_rows_of_the_command(fashion, command, tmp_path):
    rows = tmp_path / "rows.npy"
    report = tmp_path / "report.json"
    subprocess.run(
        [command, "adapt", *files(fashion), "--output-probs", rows, "--report", report], capture_output=True, check=True
    )
    estimator = fitted(fashion)
    corrected = estimator.adapt(fashion.target_probs)
    assert corrected.dtype == np.float32 and np.array_equal(corrected, np.load(rows))
    assert estimator.result_.to_dict() == json.loads(report.read_text())
    assert estimator.result_.adaptation.rows == len(fashion.target_probs)
    names = np.array(fashion.classes)
    before, after = (names[p.argmax(axis=1)] == fashion.target_labels for p in (fashion.target_probs, corrected))
    assert after.mean() > before.mean()
    assert np.array_equal(estimator.correct(fashion.target_probs[5:9]), corrected[5:9])


def test_adapt_leaves_rows_alone_where_a_label_shift_does_not_fit(fashion):
    blurred = np.load(fashion.folder / "target_blurred_probs.npy")
    estimator = fitted(fashion)
    with pytest.warns(LabelShiftWarning, match="does NOT fit.*if_fits=True leaves them alone then"):
        estimator.adapt(blurred)
    with pytest.warns(LabelShiftWarning, match="left alone"):
        same = estimator.adapt(blurred, if_fits=True)
    assert np.array_equal(same, blurred) and not estimator.result_.adaptation.corrected
    assert estimator.result_.verdict == "does-not-fit"
    assert np.array_equal(estimator.correct(blurred[:3]), blurred[:3])
    with pytest.raises(LabelShiftError, match="if_fits needs a test of the fit"):
        LabelShiftEstimator().fit(source_prior=[0.1] * 10).adapt(blurred, if_fits=True)


def assert_close(found, expected):
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_close(found[key], expected[key])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            assert_close(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
    else:
        assert found == expected


def test_partial_fit_says_what_watch_says(fashion, command):
    rows = fashion.target_probs[:1500]
    said = subprocess.run(
        [command, "watch", *files(fashion)[:4], *files(fashion)[6:], "--format", "json", "--every", "1500"],
        input="\n".join(",".join(repr(float(p)) for p in row) for row in rows),
        capture_output=True,
        check=True,
        text=True,
    )
    estimator = fitted(fashion)
    for batch in np.array_split(rows.astype(float), 7):
        estimator.partial_fit(batch)
    result = estimator.estimate()
    expected = json.loads(said.stdout.splitlines()[-1])
    # The command adds row by row, and OpenBLAS rounds products of other numbers of rows otherwise on some processors.
    assert_close(result.to_dict(), expected)
    assert result.alarm and result.rows == 1500
    assert repr(result).startswith("After 1500 rows\n") and "ALARM" in repr(result)
    assert result._repr_svg_().lstrip().startswith("<svg")
    with pytest.raises(LabelShiftError, match="no rows to estimate from"):
        fitted(fashion).estimate()
    with pytest.raises(LabelShiftError, match="partial_fit needs source_probs"):
        LabelShiftEstimator().fit(source_prior=[0.5, 0.5]).partial_fit([[0.5, 0.5]])
    with pytest.raises(LabelShiftError, match="found 3 columns, expected 10, one for each class"):
        estimator.partial_fit([[0.5, 0.25, 0.25]])
    assert estimator.estimate().rows == 1500


def test_a_prior_alone_is_enough_for_the_likelihood(fashion):
    prior = np.full(10, 0.1)
    result = LabelShiftEstimator().fit(source_prior=prior).estimate(fashion.target_probs)
    assert result.calibration_fit is None and result.source_prior.tolist() == prior.tolist()
    with pytest.raises(LabelShiftError, match='estimator "bbse" needs source probabilities and labels'):
        LabelShiftEstimator("bbse").fit(source_prior=prior).estimate(fashion.target_probs)


def test_labels_are_names_or_numbers_of_columns_or_sorted_classes(fashion):
    probs, names = fashion.source_probs, np.array(fashion.classes)
    codes = np.searchsorted(np.sort(names), fashion.source_labels)
    order = np.argsort(names)
    expected = fitted(fashion).estimate(fashion.target_probs).target_prior
    sorted_names = LabelShiftEstimator().fit(probs[:, order], fashion.source_labels)
    assert sorted_names.classes_ == sorted(names)
    numbers = LabelShiftEstimator().fit(probs[:, order], codes)
    assert numbers.classes_ == list(range(10))
    from_one = LabelShiftEstimator().fit(probs[:, order], codes + 1)
    assert from_one.classes_ == list(range(1, 11))
    named_numbers = LabelShiftEstimator(classes=names[order].tolist()).fit(probs[:, order], codes)
    for estimator in (sorted_names, numbers, from_one, named_numbers):
        found = estimator.estimate(fashion.target_probs[:, order]).target_prior
        assert np.allclose(found, expected[order], atol=1e-7)
    unseen = LabelShiftEstimator().fit(probs[codes != 3][:, order], codes[codes != 3], source_prior=np.full(10, 0.1))
    assert unseen.estimate(fashion.target_probs[:, order]).classes == [str(c) for c in range(10)]


@pytest.mark.parametrize(
    "problem, sentence",
    [
        (lambda f: LabelShiftEstimator().fit(), "nothing is known of the source"),
        (lambda f: LabelShiftEstimator().fit(f.source_probs), "source_probs and source_labels belong together"),
        (lambda f: refit(f, labels=f.source_labels[:7]), "source labels"),
        (lambda f: refit(f, labels=["cat"] * 2000), "found 'cat', expected one of the classes 'T-shirt/top'"),
        (lambda f: refit(f, labels=np.zeros((2000, 1))), "of 2 dimensions, expected one label a row"),
        (lambda f: refit(f, None, labels=np.arange(2000) % 11), "found 11 different labels for 10 columns"),
        (lambda f: refit(f, source_weights=[1, 2]), "source weights"),
        (lambda f: refit(f, source_prior=[0.5, 0.5]).estimate(f.target_probs), "source prior has 2 classes"),
        (lambda f: refit(f, source_prior=[0.5, 0.5]).partial_fit(f.target_probs), "source prior has 2 classes"),
        (lambda f: fitted(f).estimate(f.target_probs[:, :9]), "found 9 columns, expected 10"),
        (lambda f: fitted(f).estimate(f.target_probs * 2), "use logits=True for raw scores or renormalise=True"),
        (lambda f: fitted(f).estimate(-f.target_probs), "expected a probability; use logits=True for raw scores"),
        (lambda f: fitted(f).estimate(np.full((3, 10), np.nan)), "target probabilities, row 1, column 1: found nan"),
        (lambda f: fitted(f).estimate(f.target_probs[0]), "found an array of 1 dimensions, expected two"),
        (lambda f: fitted(f).estimate([["a"] * 10]), "expected numbers, and could not convert string"),
        (lambda f: fitted(f).estimate(f.target_probs[:0]), "has 0 rows and 10 columns"),
        (lambda f: fitted(f).estimate(f.target_probs, target_weights=[1.0]), "target weights"),
        (lambda f: fitted(f, estimator="mlls_sqp").estimate(f.target_probs), 'did you mean "mlls-sqp"'),
        (lambda f: fitted(f, calibration="temp").estimate(f.target_probs), "unknown calibration"),
        (lambda f: fitted(f, settings={"tolerence": 1}).estimate(f.target_probs), 'did you mean "tolerance"'),
        (lambda f: fitted(f, level=1.5).estimate(f.target_probs), "level is 1.5, expected a number from 0 to 1"),
        (lambda f: fitted(f, level=0).estimate(f.target_probs), "the level is 0, expected a number between 0 and 1"),
        (lambda f: fitted(f, seed=-1).estimate(f.target_probs), "seed is -1, expected a whole number from 0 to 18446"),
        (lambda f: fitted(f, bootstrap=100.5).estimate(f.target_probs), "bootstrap is 100.5, expected a whole number"),
        (lambda f: fitted(f, half_life=None).partial_fit(f.target_probs), "half_life is None, expected a number that"),
        (lambda f: fitted(f, half_life=float("nan")).partial_fit(f.target_probs), "half_life is nan, expected a num"),
        (lambda f: fitted(f, alarm=2).partial_fit(f.target_probs), "alarm is 2, expected a number from 0 to 1"),
        (lambda f: fitted(f, estimator=None).estimate(f.target_probs), 'unknown estimator "None"'),
        (lambda f: fitted(f, bootstrap=3).estimate(f.target_probs), "3 bootstrap replicates make no interval"),
        (lambda f: fitted(f, smoothing=-1).partial_fit(f.target_probs), "smoothing is -1, expected a number that is not negative"),
        (lambda f: fitted(f, estimator="mlls-l1").partial_fit(f.target_probs), "mlls-l1"),
    ],
)
def test_errors_are_value_errors_with_the_sentence_of_the_library(fashion, problem, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        problem(fashion)
    assert isinstance(caught.value, LabelShiftError)


def test_an_estimator_that_was_not_fitted_says_so(fashion):
    with pytest.raises(NotFittedError):
        LabelShiftEstimator().estimate(fashion.target_probs)
    with pytest.raises(NotFittedError, match="adapt to a target first"):
        fitted(fashion).correct(fashion.target_probs)


def test_a_wrong_source_is_a_warning_where_it_is_used(fashion):
    shuffled = np.random.default_rng(0).permutation(fashion.source_labels)
    estimator = LabelShiftEstimator(classes=fashion.classes).fit(fashion.source_probs, shuffled)
    with pytest.warns(LabelShiftWarning, match="do not clearly say more of the source labels") as caught:
        result = estimator.estimate(fashion.target_probs)
    assert result.verdict == "wrong-source" and result.warnings == [str(w.message) for w in caught]
    assert caught[0].filename == __file__
    with pytest.warns(LabelShiftWarning, match="do not clearly say more of the source labels"):
        estimator.partial_fit(fashion.target_probs)


def test_params_and_clones_are_those_of_scikit_learn(fashion):
    estimator = LabelShiftEstimator("rlls", settings={"alpha": 0.1}, level=0.9)
    assert clone(estimator).get_params() == estimator.get_params()
    assert estimator.set_params(calibration="ts").calibration == "ts"
    assert repr(LabelShiftEstimator(level=0.9)) == "LabelShiftEstimator(level=0.9)"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, lambda a: np.repeat(a, 2, axis=0)[::2]])
def test_arrays_are_not_copied(fashion, dtype, layout):
    array = layout(fashion.target_probs.astype(dtype))
    assert np.shares_memory(_arrays.matrix(array), array)
    # The compiled module sees the array itself: a number that is changed there is found there.
    estimator = fitted(fashion)
    array[7] = 0.5
    with pytest.raises(LabelShiftError, match="row 8: probabilities sum to 5"):
        estimator.estimate(array)


def test_what_is_no_matrix_in_memory_is_copied(fashion):
    expected = fitted(fashion).estimate(fashion.target_probs.astype(float)).to_dict()
    raw = np.zeros(fashion.target_probs.size * 8 + 1, dtype=np.uint8)[1:].view(np.float64).reshape(-1, 10)
    raw[:] = fashion.target_probs
    assert not raw.flags.aligned
    for same in (
        np.ascontiguousarray(fashion.target_probs[::-1, ::-1])[::-1, ::-1].astype(float),
        fashion.target_probs.astype(">f8"),
        fashion.target_probs.astype(np.longdouble),
        fashion.target_probs.astype(float).tolist(),
        raw,
    ):
        assert fitted(fashion).estimate(same).to_dict() == expected
    half = fashion.target_probs.astype(np.float16)
    expected = fitted(fashion).estimate(half.astype(float) / half.astype(float).sum(axis=1, keepdims=True))
    found = LabelShiftEstimator(classes=fashion.classes, renormalise=True)
    found = found.fit(fashion.source_probs, fashion.source_labels).estimate(half)
    assert np.allclose(found.target_prior, expected.target_prior, atol=1e-5)  # float32 sums


def test_mapped_files_are_not_read_into_memory(fashion):
    mapped = np.load(fashion.folder / "target_probs.npy", mmap_mode="r")
    assert np.shares_memory(_arrays.matrix(mapped), mapped)
    assert fitted(fashion).estimate(mapped).to_dict() == fitted(fashion).estimate(fashion.target_probs).to_dict()


def test_logits_are_taken_as_they_are(fashion):
    logits = np.log(np.clip(fashion.source_probs.astype(float), 1e-12, 1)) + 3
    target = np.log(np.clip(fashion.target_probs.astype(float), 1e-12, 1)) - 2
    estimator = LabelShiftEstimator(classes=fashion.classes, logits=True).fit(logits, fashion.source_labels)
    expected = fitted(fashion).estimate(fashion.target_probs).target_prior
    assert np.allclose(estimator.estimate(target).target_prior, expected, atol=1e-5)
    assert np.allclose(estimator.adapt(target).sum(axis=1), 1)
    estimator.partial_fit(target)
    with pytest.warns(LabelShiftWarning, match="these look like probabilities; if they are, leave logits out"):
        fitted(fashion, logits=True)


def long_work():
    """An estimate that would take minutes."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(10), size=20_000)
    labels = np.array([rng.choice(10, p=row) for row in probs[:5000]])
    estimator = LabelShiftEstimator("mlls-sgd", "ts", settings={"epochs": 1_000_000})
    return estimator.fit(probs[:5000], labels), probs


def interrupted(work):
    threading.Timer(0.5, signal.raise_signal, [signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        work()


def test_ctrl_c_stops_a_solver():
    estimator, probs = long_work()
    interrupted(lambda: estimator.estimate(probs))


def test_ctrl_c_stops_a_bootstrap():
    estimator, probs = long_work()
    estimator.set_params(estimator="mlls-sqp", settings=None, bootstrap=1_000_000)
    interrupted(lambda: estimator.estimate(probs))


def test_other_threads_run_while_the_library_works():
    estimator, probs = long_work()
    counted = []

    def count():
        deadline = time.monotonic() + 30
        while len(counted) < 100 and time.monotonic() < deadline:
            counted.append(None)
            time.sleep(0.001)
        signal.raise_signal(signal.SIGINT)  # only now, and it ends the work

    thread = threading.Thread(target=count)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        estimator.estimate(probs)
    thread.join()
    assert len(counted) == 100


def test_the_import_loads_neither_scikit_learn_nor_pandas_nor_torch():
    code = "import sys, labelshift; print([m for m in ('sklearn', 'scipy', 'pandas', 'torch') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert found.stdout == "[]\n"
    assert set(labelshift.__all__) == set(dir(labelshift))
    for name in labelshift.__all__:
        getattr(labelshift, name)
    with pytest.raises(AttributeError, match="no attribute 'Estimator'"):
        labelshift.Estimator


def test_the_stubs_name_what_the_compiled_module_has():
    import ast
    from pathlib import Path

    (stub,) = Path(labelshift.__file__).parent.glob("_core.pyi")
    tree = ast.parse(stub.read_text())
    named = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            named[node.name] = node
        elif isinstance(node, ast.AnnAssign):
            named[node.target.id] = node
    assert set(named) == {name for name in dir(_core) if not name.startswith("__")} | {"__version__"}
    for name, node in named.items():
        if isinstance(node, ast.ClassDef) and name != "LabelShiftError":
            methods = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
            assert methods == {method for method in vars(getattr(_core, name)) if not method.startswith("__")}
        if isinstance(node, ast.FunctionDef):
            for argument in node.args.kwonlyargs:
                assert f"{argument.arg}: " in getattr(_core, name).__doc__
    assert (stub.parent / "py.typed").exists()


def test_the_same_seed_gives_the_same_answer(fashion):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = [fitted(fashion, bootstrap=100, seed=3).estimate(fashion.target_probs).to_dict() for _ in range(2)]
    assert results[0] == results[1]
    assert isinstance(LabelShiftEstimator().fit(source_prior=[0.5, 0.5]).estimate([[0.3, 0.7]] * 20), LabelShiftResult)


def test_frames_with_numbered_columns_in_another_order_are_refused(fashion):
    pandas = pytest.importorskip("pandas")
    numbers = [list(fashion.classes).index(label) for label in fashion.source_labels]
    estimator = refit(fashion, classes=None, labels=numbers)
    frame = pandas.DataFrame(fashion.target_probs)
    estimator.estimate(frame)
    with pytest.raises(LabelShiftError, match=r"column 1 of the frame is 9, expected 0: columns must be the same classes"):
        estimator.estimate(frame[frame.columns[::-1]])


def test_rows_of_many_threads_all_count(fashion):
    for _ in range(5):
        estimator = fitted(fashion)
        rows = np.array_split(fashion.target_probs, 6)
        start = threading.Barrier(len(rows))
        threads = [
            threading.Thread(target=lambda batch: (start.wait(), estimator.partial_fit(batch)), args=(batch,))
            for batch in rows
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert estimator.estimate().rows == len(fashion.target_probs)


def test_another_source_forgets_what_was_found_with_the_last(fashion):
    estimator = fitted(fashion)
    estimator.adapt(fashion.target_probs)
    estimator.fit(fashion.source_probs, fashion.source_labels)
    assert not hasattr(estimator, "result_")
    with pytest.raises(NotFittedError, match="adapt to a target first"):
        estimator.correct(fashion.target_probs)


def test_masked_entries_are_refused(fashion):
    rows = np.ma.masked_array(np.array(fashion.target_probs))
    rows[100:] = np.ma.masked
    with pytest.raises(LabelShiftError, match="found masked entries"):
        fitted(fashion).estimate(rows)
    assert fitted(fashion).estimate(np.ma.masked_array(np.array(fashion.target_probs))).target_rows == len(fashion.target_probs)


@pytest.mark.parametrize(
    "params, sentence",
    [
        ({"classes": 6}, r"classes is 6, expected a list of names"),
        ({"classes": [[1], [2]]}, r"classes is \[\[1\], \[2\]\], expected a list of names"),
        ({"logits": "no"}, r"logits is 'no', expected True or False"),
        ({"settings": "abc"}, r"settings is 'abc', expected a dict"),
        ({"bootstrap": 10**9}, r"bootstrap is 1000000000, expected a whole number from 0 to 1000000"),
    ],
)
def test_parameters_of_another_type_are_named(fashion, params, sentence):
    with pytest.raises(LabelShiftError, match=sentence):
        LabelShiftEstimator(**params).fit(fashion.source_probs, np.arange(len(fashion.source_probs)) % 10).estimate(
            fashion.target_probs
        )


def test_rows_of_several_lengths_are_refused(fashion):
    with pytest.raises(LabelShiftError, match="expected rows of equal lengths"):
        fitted(fashion).estimate([[0.5, 0.5], [1.0]])


def test_numbers_that_name_columns_are_not_their_places():
    probs = np.array([[0.8, 0.2], [0.3, 0.7]] * 50)
    by_name = LabelShiftEstimator(classes=[1.0, 0.0]).fit(probs, [1, 0] * 50)
    assert by_name._source["source_labels"].tolist() == [0, 1] * 50
