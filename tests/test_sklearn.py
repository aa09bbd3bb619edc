"""The estimators for scikit-learn: its own checks, every form of X, early stopping, limits, errors."""

import pickle
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy
import pytest

pytest.importorskip("sklearn")
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from srnn.errors import DivergedError, SettingError
from srnn.lab.sklearn import SRNNClassifier, SRNNRegressor

SMALL: dict[str, Any] = {"hidden_size": 4, "max_updates": 2, "random_state": 0}
Arrays = list[numpy.ndarray]


class HastyClassifier(SRNNClassifier):
    """Makes two updates in the checks of scikit-learn, so it does not claim to be good."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


class HastyRegressor(SRNNRegressor):
    """The same for numbers."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


CHECKS: pytest.MarkDecorator = parametrize_with_checks([HastyClassifier(**SMALL), HastyRegressor(**SMALL)])


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # scikit-learn skips checks with a warning
@CHECKS
def test_estimators_pass_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def waves(count: int = 40, inputs: int = 1) -> tuple[Arrays, list[str]]:
    """Slow and fast waves of 10 to 20 steps."""
    draws = numpy.random.default_rng(0)
    labels = ["slow", "fast"] * (count // 2)
    steps = [numpy.arange(draws.integers(10, 20))[:, None] + numpy.zeros(inputs) for _ in labels]
    return [numpy.sin((0.3 if label == "slow" else 1.2) * t) for t, label in zip(steps, labels, strict=True)], labels


def test_classifier_learns_sequences_of_unequal_length() -> None:
    X, y = waves()
    model = SRNNClassifier(hidden_size=16, lr=0.02, max_updates=200, random_state=0).fit(X[:30], y[:30])
    assert model.score(X[30:], y[30:]) >= 0.9
    assert model.classes_.tolist() == ["fast", "slow"]
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1)


def test_regressor_predicts_in_the_unit_of_the_target() -> None:
    X = numpy.random.default_rng(0).normal(size=(60, 3))
    y = 1000 + 50 * X[:, -1]
    model = SRNNRegressor(hidden_size=16, lr=0.02, max_updates=100, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.7


def test_all_forms_of_the_same_sequences_give_the_same_predictions() -> None:
    pandas = pytest.importorskip("pandas")
    X, y = numpy.random.default_rng(0).normal(size=(20, 6)), [0, 1] * 10
    forms = [X, X[:, :, None], list(X), [each[:, None] for each in X], pandas.DataFrame(X, columns=list("abcdef"))]
    forms += [[pandas.DataFrame({"x": each}) for each in X], X.tolist()]
    models = [SRNNClassifier(**SMALL).fit(form, y) for form in forms]
    found = [model.predict_proba(form) for model, form in zip(models, forms, strict=True)]
    assert all(numpy.array_equal(each, found[0]) for each in found)
    assert [model.n_features_in_ for model in models] == [6, 1, 1, 1, 6, 1, 6]
    assert models[4].feature_names_in_.tolist() == list("abcdef")
    assert numpy.array_equal(models[2].predict_proba(X), found[0])
    for model, form in zip(models[:4], forms, strict=False):  # one sequence alone
        assert model.predict_proba(form[:1]) == pytest.approx(found[0][:1], abs=1e-6)


def test_same_random_state_gives_the_same_model_and_another_does_not() -> None:
    X, y = waves()
    one, same, other = (SRNNClassifier(**SMALL | {"random_state": k}).fit(X, y).predict_proba(X) for k in (1, 1, 2))
    assert numpy.array_equal(one, same)
    assert not numpy.array_equal(one, other)


def test_pickled_estimator_predicts_the_same_and_holds_no_data() -> None:
    X, y = waves(inputs=2)
    model = SRNNClassifier(**SMALL).fit(X, y)
    large = SRNNClassifier(**SMALL).fit(X * 20, y * 20)
    content = pickle.dumps(model)
    assert numpy.array_equal(pickle.loads(content).predict_proba(X), model.predict_proba(X))
    assert len(pickle.dumps(large)) < len(content) + 1000


def test_grid_search_and_clone_work_with_lists() -> None:
    X, y = waves()
    search = GridSearchCV(SRNNClassifier(**SMALL), {"model": ["srnnstack", "gru"]}, cv=2, error_score="raise").fit(X, y)
    assert search.best_params_["model"] in ("srnnstack", "gru")
    assert clone(search.best_estimator_).get_params() == search.best_estimator_.get_params()


def test_training_stops_early_and_keeps_the_best_weights() -> None:
    X, y = waves(20)
    labels = numpy.random.default_rng(1).permutation(y)  # nothing to learn, so validation soon gets worse
    model = SRNNClassifier(hidden_size=8, lr=0.05, patience=1, max_updates=1000, random_state=0).fit(X, labels)
    assert model.record_.ended_by == "patience"
    assert model.record_.selection is not None
    assert model.record_.selection.step < model.record_.updates < 1000
    assert model.record_.result.loss == model.record_.selection.loss


def test_clock_ends_the_training() -> None:
    X, y = waves(20)
    model = SRNNClassifier(hidden_size=4, max_updates=None, minutes=1e-6, random_state=0).fit(X, y)
    assert model.record_.ended_by == "minutes"


def test_without_validation_all_sequences_are_trained_on() -> None:
    X, y = waves(4)
    model = SRNNClassifier(**SMALL, validation_fraction=0, batch_size=4).fit(X, y)
    assert (model.record_.examples, model.record_.selection) == (8, None)


def test_missing_values_are_read_and_scales_come_from_the_training_part() -> None:
    X, y = numpy.full((10, 4, 2), 5.0), numpy.arange(10.0)
    X[:, 1, 0] = numpy.nan
    X[:, 2, 1] = 9.0
    model = SRNNRegressor(**SMALL).fit(X, y)
    inputs = model.model_.task.prepared.inputs
    assert [each.marks_missing for each in inputs] == [True, False]
    assert inputs[1].mean == 6.0
    assert numpy.isfinite(model.predict(X)).all()


ONE, TWO = numpy.zeros((10, 5)), [numpy.zeros((5, 2))] * 10
LABELS = [0, 1] * 5


@pytest.mark.parametrize(
    ("X", "settings", "message"),
    [
        ([*TWO[:9], numpy.zeros((5, 3))], {}, r"same number of inputs, got 2 in X\[0\] and 3 in X\[9\]"),
        ([*TWO[:9], numpy.zeros((0, 2))], {}, r"X\[9\] must have at least one step and one input"),
        ([*TWO[:9], numpy.full((5, 2), numpy.inf)], {}, r"X\[9\] contains infinity"),
        (numpy.full((10, 5), 1e200), {}, "must hold finite numbers, got 1e\\+200 in row 1"),
        (numpy.zeros((10, 0, 2)), {}, r"at least one step and one input, got \(10, 0, 2\)"),
        (TWO[:9], {}, "inconsistent numbers of samples"),
        (ONE, {"model": "grru"}, "no network is called 'grru'"),
        (ONE, {"lr": -1.0}, "lr"),
        (ONE, {"validation_fraction": 1}, "validation_fraction must be at least 0 and below 1, got 1"),
        (ONE, {"validation_fraction": 0.95}, "too few"),
        (ONE, {"max_updates": None}, "give max_updates or minutes"),
        (ONE, {"settings": {"colour": 1}}, "setting 'colour'"),
    ],
)
def test_bad_input_gives_one_line(X: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        SRNNClassifier(**SMALL | settings).fit(X, LABELS)
    if isinstance(error.value, SettingError) or "samples" not in message:
        assert "\n" not in str(error.value)


def test_one_class_and_one_sequence_are_refused() -> None:
    with pytest.raises(ValueError, match="y must have at least two classes, got 1"):
        SRNNClassifier(**SMALL).fit(ONE, [1] * 10)
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        SRNNRegressor(**SMALL).fit(ONE[:1], [1])


def test_prediction_refuses_another_number_of_inputs() -> None:
    model = SRNNClassifier(**SMALL).fit(TWO, LABELS)
    with pytest.raises(ValueError, match="have 1 inputs per step, but SRNNClassifier was fitted with 2"):
        model.predict(ONE)


def test_diverged_training_is_an_error_that_names_lr() -> None:
    X, y = waves()
    with pytest.raises(DivergedError, match=r"diverged after \d+ updates: .* Lower lr"), warnings.catch_warnings():
        SRNNClassifier(hidden_size=4, lr=1e30, max_updates=50, random_state=0, settings={"clip": 0, "warmup": 0}).fit(X, y)


def test_missing_package_is_one_line() -> None:
    code = "import sys; sys.modules['sklearn'] = sys.modules['sklearn.base'] = None; import srnn.lab.sklearn"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'srnn[sklearn]'" in found.stderr.splitlines()[-1]


def test_block_of_the_documentation_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[1] / "docs" / "fit.md").read_text(encoding="utf-8")
    code = re.findall(r"^```python\n(.*?)^```$", text.partition("## scikit-learn\n")[2], re.M | re.S)
    assert len(code) == 1
    exec(compile(code[0], "docs/fit.md", "exec"), {})
    assert float(capsys.readouterr().out.split()[0]) > 0.9
