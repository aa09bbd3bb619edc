"""scikit-learn estimators for sequences: `fit`, `predict` and `score` in memory, with the training of `srnn fit`.

    SRNNClassifier(max_updates=500, random_state=0).fit(X, y).predict_proba(X)

X is one of these, for N sequences of T steps with C inputs each. NaN is a missing value.

    array [N, T, C]                 sequences of equal length
    list of N arrays [T, C]         T may differ. An array [T] has one input. DataFrames have a row per step
    array or DataFrame [N, T]       a row per sequence with one input

scikit-learn's contract makes the columns of a 2-D X its features: a model fitted on one refuses 2-D arrays of another T. A list
may still have other lengths.
"""

import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy
import torch
from numpy.typing import NDArray

from srnn.errors import DataError, DivergedError, MissingPackageError, SettingError
from srnn.lab.data.fitting import fit_numbers, split, training_rows, usual_length
from srnn.lab.data.preparation import CLASSIFY, REGRESS, Preparation
from srnn.lab.data.sequences import Layout, Sequences, numbers_of
from srnn.lab.data.table import SEQUENCE, Column, Table
from srnn.lab.records.folder import RunFolder
from srnn.lab.records.record import Record
from srnn.lab.tasks.fitted import Divided, of_sequences
from srnn.lab.tasks.prediction import outputs
from srnn.lab.training.fit import run_of_task
from srnn.lab.training.loop import Training, torch_unchanged
from srnn.lab.training.model import Model
from srnn.lab.training.run import Run

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_array, check_consistent_length, check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ModuleNotFoundError as missing:
    raise MissingPackageError(f"the estimators need {missing.name}. Install it with: pip install 'srnn[sklearn]'") from None

TARGET = "y"
READ = {"dtype": numpy.float64, "ensure_all_finite": "allow-nan"}  # NaN is a missing value, infinity is refused
_one_training = threading.Lock()  # torch's random generator and number of threads belong to the process, not to a thread


class SequenceEstimator(BaseEstimator):  # type: ignore[misc]
    """What classifier and regressor share: arguments, the forms of X, training.

    Args:
        model: Name of a network of `srnn.lab.networks`, such as "srnn", "srnnstack" or "gru".
        hidden_size: Units of the network.
        lr: Learning rate.
        batch_size: Sequences in an update. None chooses at most 32, fewer if there are few sequences.
        max_updates: End after this many updates. None for no such limit.
        minutes: End after this many minutes at the latest. None for no such limit.
        validation_fraction: Share of the sequences that select the weights and stop the training early. 0 trains on all.
        patience: End after this many evaluations without improvement. None for no such limit.
        settings: Further settings of the run and the network by name, such as {"dropout": 0.1}. `srnn info NAME` lists them.
        random_state: Makes the results reproducible: initial weights, split and batches depend on it.

    Attributes:
        model_: The trained torch model.
        record_: The record of the training: its curve, number of updates and what ended it.
        n_features_in_: Columns of a 2-D X, otherwise inputs per step.
    """

    model_: Model
    _has_columns: bool
    record_: Record
    n_features_in_: int

    def __init__(
        self,
        model: str = "srnn",
        *,
        hidden_size: int = 128,
        lr: float = 2e-3,
        batch_size: int | None = None,
        max_updates: int | None = 3000,
        minutes: float | None = None,
        validation_fraction: float = 0.15,
        patience: int | None = 20,
        settings: Mapping[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.hidden_size = hidden_size
        self.lr = lr
        self.batch_size = batch_size
        self.max_updates = max_updates
        self.minutes = minutes
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.settings = settings
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags

    def _prepared(self, y: NDArray[Any]) -> tuple[Preparation, Column]:
        """Return a preparation without inputs, and the answers."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any) -> Any:
        """Train on sequences.

        Args:
            X: Sequences, in one of the forms above.
            y: One answer for each sequence.

        Raises:
            ValueError: X, y or an argument has a value that is not allowed.
            DivergedError: The loss is no longer a finite number.
        """
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        draft, answers = self._prepared(y)  # before X, because scikit-learn forgets the names of the columns of X in it
        arrays = self._arrays(X, is_fit=True)
        check_consistent_length(arrays, answers.cells)
        with _value_errors():
            task = self._task(_sequences(arrays, answers), draft, seed)
        run = self._run(task, seed)
        # The loop of `srnn train` writes its curve and checkpoint to a folder, so it gets one that is deleted afterwards. Its
        # function `train` is not used because it sets signal handlers, which only the main thread of a process may do.
        with _one_training, TemporaryDirectory() as folder, torch_unchanged():
            training = Training(run, RunFolder(Path(folder)), math.inf, ())
            record = training.to_the_end(lambda: None)
        if record.status != "finished":
            raise DivergedError(
                f"the training diverged after {record.updates} updates: {record.ended_by}. Lower lr={self.lr:g}"
            )
        self.model_, self.record_ = training.model.eval(), record
        self.model_.zero_grad()
        self.model_.task = Divided(task.file, task.digest, task.preparation)  # without the data, which a copy need not hold
        return self

    def _arrays(self, X: Any, *, is_fit: bool) -> list[NDArray[numpy.float64]]:
        """Return the sequences as arrays [T, C], and learn the number of features or check it."""
        if _is_list(X):
            found = [_steps(each, f"X[{number}]") for number, each in enumerate(X)]
            if odd := next((k for k, each in enumerate(found) if each.shape[1] != found[0].shape[1]), None):
                sizes = f"{found[0].shape[1]} in X[0] and {found[odd].shape[1]} in X[{odd}]"
                raise ValueError(f"the sequences of X must have the same number of inputs, got {sizes}")
        elif getattr(X, "ndim", None) == 3:
            found = list(check_array(X, allow_nd=True, input_name="X", estimator=self, **READ))
            if not found[0].size:
                raise ValueError(f"X must be [N, T, C] with at least one step and one input, got {X.shape}")
        elif is_fit or self._has_columns:
            found = list(validate_data(self, X, reset=is_fit, ensure_min_samples=2 if is_fit else 1, **READ)[:, :, None])
        else:
            found = list(check_array(X, input_name="X", estimator=self, **READ)[:, :, None])
        inputs = found[0].shape[1]
        if is_fit:
            self._has_columns = not _is_list(X) and getattr(X, "ndim", None) != 3
            if not self._has_columns:
                self.n_features_in_ = inputs
        elif inputs != (expected := len(self._fitted.inputs)):
            name = type(self).__name__
            raise ValueError(f"the sequences of X have {inputs} inputs per step, but {name} was fitted with {expected}")
        return found

    def _task(self, sequences: Sequences, draft: Preparation, seed: int) -> Divided:
        """Return the task, with scales from its training part."""
        if draft.val:
            parts = split(sequences, draft, seed)
        else:
            parts = {"train": list(range(len(sequences.names)))}
        rows = training_rows(sequences, draft, parts["train"])
        table = sequences.table
        numeric = [name for name in table.columns if name != TARGET or draft.classes is None]
        scales = {name: fit_numbers(name, numbers_of(table, name)[rows]) for name in numeric}
        if (target := scales.pop(TARGET, None)) is not None:
            draft = replace(draft, mean=[target.mean], scale=[target.scale])
        found = replace(draft, inputs=list(scales.values()), steps=usual_length(sequences.lengths))
        return of_sequences(sequences, found, parts)

    def _run(self, task: Divided, seed: int) -> Run:
        if self.max_updates is None and self.minutes is None:
            raise SettingError("the training needs an end: give max_updates or minutes")
        given: dict[str, Any] = {
            "hidden_size": self.hidden_size,
            "lr": self.lr,
            "steps": self.max_updates,
            "minutes": self.minutes,
            "patience": self.patience if task.selects else None,
            "seed": seed,
        }
        if self.batch_size is not None:
            given["batch_size"] = self.batch_size
        return run_of_task(task, self.model, **given | dict(self.settings or {}))

    def _outputs(self, X: Any) -> torch.Tensor:
        """Return the outputs of the model for each sequence, [N, O]."""
        check_is_fitted(self)
        sequences = _sequences(self._arrays(X, is_fit=False))
        with _value_errors():
            return torch.stack(list(outputs(self.model_, self._fitted, sequences))).double()

    @property
    def _fitted(self) -> Preparation:
        return self.model_.task.prepared  # type: ignore[attr-defined]

    def _draft(self, kind: str, classes: list[str] | None) -> Preparation:
        share = self.validation_fraction
        if not 0 <= share < 1:
            raise SettingError(f"validation_fraction must be at least 0 and below 1, got {share}")
        return Preparation(Layout(id=SEQUENCE), kind, TARGET, [], classes, [0.0], [1.0], val=float(share), test=0.0)


class SRNNClassifier(ClassifierMixin, SequenceEstimator):  # type: ignore[misc]
    """Predicts a class for each sequence. The arguments are those of `SequenceEstimator`.

    Attributes:
        classes_: The classes, sorted.
    """

    classes_: NDArray[Any]

    def _prepared(self, y: NDArray[Any]) -> tuple[Preparation, Column]:
        y = validate_data(self, y=y)
        check_classification_targets(y)
        self.classes_, places = numpy.unique(y, return_inverse=True)
        names = [str(each) for each in self.classes_]
        if len(names) < 2:
            raise ValueError(f"y must have at least two classes, got {len(names)} class{'es' * (not names)}")
        return self._draft(CLASSIFY, names), Column(numpy.array(names, dtype=object)[places], is_exact=True)

    def predict_proba(self, X: Any) -> NDArray[numpy.float64]:
        """Return the probability of each class, [N, classes], in the order of `classes_`."""
        return self._outputs(X).softmax(-1).numpy()

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each sequence, [N]."""
        places = self._outputs(X).argmax(-1).numpy()
        return self.classes_[places]


class SRNNRegressor(RegressorMixin, SequenceEstimator):  # type: ignore[misc]
    """Predicts a number for each sequence. The arguments are those of `SequenceEstimator`."""

    def _prepared(self, y: NDArray[Any]) -> tuple[Preparation, Column]:
        y = validate_data(self, y=y, y_numeric=True)
        return self._draft(REGRESS, None), Column(numpy.asarray(y, dtype=numpy.float64))

    def predict(self, X: Any) -> NDArray[numpy.float64]:
        """Return a number for each sequence, [N]."""
        values = self._outputs(X)[:, 0].numpy()
        return values * self._fitted.scale[0] + self._fitted.mean[0]


def _is_list(X: Any) -> bool:
    """Return whether X is a list of sequences, and not of rows that make a 2-D array or of single numbers."""
    is_list = isinstance(X, list | tuple) or (isinstance(X, numpy.ndarray) and X.dtype == object and X.ndim == 1)
    if not is_list or len(X) == 0 or not all(numpy.ndim(each) in (1, 2) for each in X):
        return False
    is_table = all(isinstance(each, list | tuple) and numpy.ndim(each) == 1 for each in X) and len({*map(len, X)}) == 1
    return not is_table


def _steps(given: Any, name: str) -> NDArray[numpy.float64]:
    """Return a sequence as [T, C]."""
    found = check_array(given, ensure_2d=False, ensure_min_samples=0, input_name=name, **READ)
    found = found[:, None] if found.ndim == 1 else found
    if not found.size:
        raise ValueError(f"{name} must have at least one step and one input, got the shape {numpy.shape(given)}")
    return found


def _sequences(arrays: list[NDArray[numpy.float64]], answers: Column | None = None) -> Sequences:
    """Return arrays [T, C] as rows of a table, one column per input, and the answer of its sequence in each row."""
    whole, lengths = numpy.concatenate(arrays), [len(each) for each in arrays]
    columns = {f"x{number}": Column(values) for number, values in enumerate(whole.T)}
    if answers is not None:
        columns[TARGET] = answers.take(numpy.repeat(numpy.arange(len(arrays)), lengths))
    names = [str(number) for number in range(len(arrays))]
    rows = numpy.split(numpy.arange(len(whole)), numpy.cumsum(lengths)[:-1])
    return Sequences(Table(columns, "X"), names, rows, names, [])


@contextmanager
def _value_errors() -> Iterator[None]:
    """Turn an error about the data, which is an OSError because most data are files, into a ValueError."""
    try:
        yield
    except DataError as error:
        raise ValueError(f"{error}") from None
