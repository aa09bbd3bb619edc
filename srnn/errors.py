"""Every error raised on purpose: what is wrong, what was expected, what came, what to do.

Each is also the built-in kind that `torch.nn.GRU` raises for the same mistake, so code that caught the one catches the other.
"""

from collections.abc import Iterable


class SRNNError(Exception):
    """Anything `srnn` refuses to do; a traceback of any other class is a bug of ours."""


# nn.GRU raises ValueError for a wrong rank or dtype of the input, RuntimeError for a wrong size or a wrong hx: these are both.
class ShapeError(SRNNError, ValueError, RuntimeError):
    """A tensor whose shape does not fit."""


class DtypeError(SRNNError, ValueError, RuntimeError):
    """A tensor whose element type does not fit."""


class DeviceError(SRNNError, RuntimeError):
    """Tensors that live on different devices."""


class SettingError(SRNNError, ValueError):
    """A setting with a value that cannot be."""


class SettingTypeError(SRNNError, TypeError):
    """A setting with a value of the wrong type."""


class LengthError(SRNNError, ValueError, RuntimeError):
    """Sequence lengths below zero or beyond the padded length."""


class SymbolError(SRNNError, IndexError, RuntimeError):
    """A symbol that the alphabet does not have."""


class BackendError(SRNNError, RuntimeError):
    """A backend that is not available here."""


class DerivativeError(SRNNError, NotImplementedError):
    """A derivative that does not exist here."""


class TracingError(SRNNError, RuntimeError):
    """A way to trace or to compile that does not exist here."""


class DataError(SRNNError, OSError):
    """A data set that is missing, altered or unreadable."""


class StorageError(SRNNError, OSError):
    """A folder or a file that cannot be written, or that another process holds."""


class InUseError(StorageError):
    """A run folder that another process works in: with time it may be free."""


class RecordError(SRNNError, ValueError):
    """A record, a checkpoint or a run folder that is damaged, or made with other settings."""


class DivergedError(SRNNError, ArithmeticError):
    """A training whose loss is no longer a finite number."""


class TeamError(SRNNError, RuntimeError):
    """Another of the processes that train one run together has ended."""


class Interrupted(SRNNError):
    """A run that was asked to stop, and can go on from where it stands."""

    exit_code = 130  # what shells expect of a program that was stopped by Ctrl-C; 143 for SIGTERM


def one_of(kind: str, name: object, names: Iterable[str]) -> SettingError:
    """The answer to a wrong name: the list of right ones."""
    return SettingError(f"no {kind} is called {name!r}; there are {', '.join(names)}")
