"""Every error raised on purpose: what is wrong, what was expected, what was received, what to do.

Each class is also the built-in one that `torch.nn.GRU` raises for the same mistake, so code that caught the one catches the
other.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class SRNNError(Exception):
    """Base class of all errors raised on purpose. A traceback of any other class is a bug in `srnn`."""

    exit_code: int = 1  # of the command line; 2 for values that the user can correct


# nn.GRU raises ValueError for a wrong rank or dtype of the input, RuntimeError for a wrong size or a wrong hx: these are both.
class ShapeError(SRNNError, ValueError, RuntimeError):
    """A tensor has a shape that does not fit."""


class DtypeError(SRNNError, ValueError, RuntimeError):
    """A tensor has an element type that does not fit."""


class DeviceError(SRNNError, RuntimeError):
    """Tensors are on different devices."""


class SettingError(SRNNError, ValueError):
    """A setting, an option or a name has a value that is not allowed."""

    exit_code = 2


class SettingTypeError(SRNNError, TypeError):
    """A setting has a value of the wrong type."""

    exit_code = 2


class LengthError(SRNNError, ValueError, RuntimeError):
    """A sequence length is negative or exceeds the padded length."""


class SymbolError(SRNNError, IndexError, RuntimeError):
    """A symbol is not in the alphabet."""


class BackendError(SRNNError, RuntimeError):
    """A backend is not available on this machine."""


class DerivativeError(SRNNError, NotImplementedError):
    """A derivative is not implemented."""


class TracingError(SRNNError, RuntimeError):
    """A layer cannot be traced or compiled in this way."""


class MissingPackageError(SRNNError, ImportError):
    """A package that an optional part needs is not installed."""


class ExportError(SRNNError, ValueError):
    """A model cannot be written in a format, or an exported file is damaged."""


class DataError(SRNNError, OSError):
    """A data set is missing, altered or unreadable."""


class StorageError(SRNNError, OSError):
    """A folder or a file cannot be written, or another process holds it."""


class InUseError(StorageError):
    """Another process works in the run folder. It may be free later."""


class ReadOnlyError(StorageError):
    """A folder cannot be written, but it may be read."""


class RecordError(SRNNError, ValueError):
    """A record, a checkpoint or a run folder is damaged, or was written with other settings."""


class MissingError(RecordError, DataError):
    """A file or folder that was named does not exist, or is not of the kind that was asked for."""

    exit_code = 2


class DivergedError(SRNNError, ArithmeticError):
    """The loss of a training is no longer a finite number."""


class TeamError(SRNNError, RuntimeError):
    """Another of the processes that train one run together has ended."""


class Interrupted(SRNNError):
    """A run was asked to stop, by "Ctrl-C" or by a signal. It can be resumed from its checkpoint."""

    def __init__(self, by: str, rest: str) -> None:
        super().__init__(f"stopped by {by}{rest}")
        self.exit_code = 130 if by == "Ctrl-C" else 143  # what shells expect, 143 after SIGTERM


def one_of(kind: str, name: object, names: Iterable[str]) -> SettingError:
    """Returns the error for an unknown name, with the list of known ones and the one that was probably meant."""
    names = list(names)
    return SettingError(f"no {kind} is called {name!r}. Choose one of {', '.join(names)}{did_you_mean(name, names)}")


def did_you_mean(name: object, names: Iterable[str]) -> str:
    """Returns a question that ends an error message if one of the names is close to the given one, otherwise nothing."""
    close = get_close_matches(str(name).lower(), list(names), n=1)
    return f". Did you mean {close[0]!r}?" if close else ""
