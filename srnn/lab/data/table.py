"""Tables: rows of named columns, read from CSV, NPZ or Parquet files, or from a folder that has a folder of files per class.

    step,x,label        a CSV file has the names of its columns in the first line; cells are texts until they are asked for as
    0,1.5,up            numbers
    1,,up               an empty cell, NA, NaN, null, None or ? is a missing value

A folder becomes one table: the column `file` says which file a row is from, and `class` in which folder that file is. A text
file has one row per character. Arrays [N, T] or [N, T, C] of an NPZ file have one row per step and the column `sequence`.
"""

import csv
import hashlib
import io
import math
import zipfile
import zlib
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

from srnn.errors import DataError, MissingPackageError, SettingError
from srnn.lab.data import text

MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "?"))
DELIMITERS = ",;\t|"
FILE, CLASS, SEQUENCE, CHARACTER = "file", "class", "sequence", "character"
LARGEST = 1e100  # squares of larger numbers may not be finite
EXACT = 2.0**53  # float64 holds all whole numbers up to this one


@dataclass(frozen=True)
class Column:
    """Cells of one column: numbers with nan for a missing value, or texts as they are in the file.

    is_exact    True for characters of a text: none of them is a missing value, and a space is a character
    """

    cells: NDArray[Any]
    is_exact: bool = False

    @cached_property
    def texts(self) -> NDArray[Any]:
        """The cells as texts, "" for a missing value."""
        if self.is_exact:
            return self.cells
        if self.cells.dtype.kind == "f":
            found = [("" if math.isnan(x) else str(int(x)) if x.is_integer() else repr(x)) for x in self.cells.tolist()]
        else:
            found = ["" if cell.strip().lower() in MISSING else cell.strip() for cell in self.cells]
        return numpy.array([*found, None], dtype=object)[:-1]  # None keeps numpy from making an array of str

    @cached_property
    def numbers(self) -> NDArray[numpy.float64] | None:
        """The cells as numbers, nan for a missing value; None if a cell is another text."""
        if self.cells.dtype.kind == "f":
            return self.cells
        if self.is_exact:
            return None
        try:
            return self.cells.astype(numpy.float64)
        except ValueError:
            pass
        try:
            return numpy.array([cell or "nan" for cell in self.texts], dtype=numpy.float64)
        except ValueError:
            return None

    @property
    def is_missing(self) -> NDArray[numpy.bool_]:
        """Which cells are missing."""
        return numpy.isnan(self.numbers) if self.numbers is not None else self.texts == ""

    def take(self, rows: Any) -> "Column":
        """Return some of the cells."""
        return Column(self.cells[rows], self.is_exact)


@dataclass(frozen=True)
class Table:
    """Columns of equal length.

    source      how messages name the table
    digest      sha256 of the content
    id          column that tells sequences apart, if the format itself has one
    target      column to predict, if the format itself has one
    """

    columns: Mapping[str, Column]
    source: str = "the table"
    digest: str = ""
    id: str | None = None
    target: str | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())).cells) if self.columns else 0

    def __getitem__(self, name: str) -> Column:
        if name not in self.columns:
            raise SettingError(f"{self.source} has no column {name!r}. It has {_listed(self.columns)}")
        return self.columns[name]

    @classmethod
    def of(cls, columns: Mapping[str, Any], source: str = "the table") -> "Table":
        """Make a table of arrays or lists.

        Raises:
            DataError: The columns are of unequal length, or hold values that are neither numbers nor texts.
        """
        found = {str(name): _column(str(name), _array(str(name), values, source), source) for name, values in columns.items()}
        if len(lengths := {name: len(column.cells) for name, column in found.items()}) and len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name!r} {length}" for name, length in lengths.items())
            raise DataError(f"the columns of {source} must be of equal length, got {shown}")
        digest = hashlib.sha256()
        for name, column in found.items():
            digest.update(repr((name, column.texts.tolist())).encode())
        return cls(found, source, digest.hexdigest())


def _listed(names: Iterable[str], most: int = 12) -> str:
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def read(path: Path) -> Table:
    """Read a file or a folder.

    Raises:
        MissingError: There is no such file.
        DataError: It is empty, damaged or of another format.
        MissingPackageError: It is a Parquet file, and pyarrow is not installed.
    """
    return _read_folder(path) if path.is_dir() else _read_file(path)


def digest(path: Path) -> str:
    """Return the sha256 of a file, or of the names and contents of all files of a folder."""
    if not path.is_dir():
        return hashlib.sha256(text.read(path)).hexdigest()
    found = hashlib.sha256()
    for file, _ in _files(path):
        found.update(f"{file.relative_to(path).as_posix()} {digest(file)}\n".encode())
    return found.hexdigest()


def _read_file(path: Path) -> Table:
    content = text.read(path)
    if path.suffix.lower() not in READERS:
        raise DataError(f"{path} must end in one of {', '.join(READERS)}, so that its format is known")
    if not content.strip():
        needs = "" if path.suffix.lower() == ".txt" else ". It must have the names of the columns and at least one row"
        raise DataError(f"{path} is empty{needs}")
    found = READERS[path.suffix.lower()](path, content)
    if not len(found):
        raise DataError(f"{path} has no rows, only the names of its columns: {_listed(found.columns)}")
    return Table(found.columns, str(path), hashlib.sha256(content).hexdigest(), found.id)


def _files(folder: Path) -> list[tuple[Path, str | None]]:
    """Return the files of a folder, each with the folder in it that the file is in, if any. Hidden files are skipped."""
    places: list[tuple[Path, str | None]] = [(folder, None)]
    try:
        places += [(each, each.name) for each in sorted(folder.iterdir()) if each.is_dir() and not each.name.startswith(".")]
        return [
            (file, name)
            for place, name in places
            for file in sorted(place.iterdir())
            if file.suffix.lower() in READERS and not file.name.startswith(".") and file.is_file()
        ]
    except OSError as error:
        raise DataError(f"{folder} cannot be read: {error.strerror}") from None


def _read_folder(folder: Path) -> Table:
    files = _files(folder)
    if not files:
        raise DataError(f"{folder} has no files that end in {', '.join(READERS)}, neither in it nor in the folders in it")
    if len(kinds := {name is None for _, name in files}) > 1:
        raise DataError(
            f"{folder} has files both in it and in its folders. Expected a folder for each class, and files in those"
        )
    tables = [_read_file(file) for file, _ in files]
    for table in tables:
        if apart := tables[0].columns.keys() ^ table.columns.keys():
            raise DataError(f"{tables[0].source} and {table.source} differ in the columns {_listed(sorted(apart))}")
        if clash := table.columns.keys() & {FILE, CLASS}:
            raise DataError(f"{table.source} has a column {min(clash)!r}, which is the name for the place of a file. Rename it")
    sizes = [len(table) for table in tables]
    names = [file.relative_to(folder).as_posix() for file, _ in files]
    columns = {FILE: _texts(numpy.repeat(names, sizes))}
    if not kinds.pop():
        columns[CLASS] = _texts(numpy.repeat([str(name) for _, name in files], sizes))
    for name in tables[0].columns:
        cells = [table.columns[name].cells for table in tables]
        if len({each.dtype.kind for each in cells}) > 1:
            if any(table.columns[name].numbers is None for table in tables):
                raise DataError(f"the column {name!r} has numbers in some files of {folder} and texts in others")
            cells = [table.columns[name].texts for table in tables]  # some file has whole numbers above EXACT
        columns[name] = Column(numpy.concatenate(cells), tables[0].columns[name].is_exact)
    return Table(columns, str(folder), digest(folder), FILE, CLASS if CLASS in columns else None)


def _texts(cells: Iterable[object]) -> Column:
    return Column(numpy.array([*map(str, cells), None], dtype=object)[:-1])


def characters(texts: Iterable[str]) -> Column:
    """Return the characters of texts as a column."""
    return Column(_texts(character for each in texts for character in each).cells, is_exact=True)


def _decoded(path: Path, content: bytes) -> str:
    return text.decoded(path, content).removeprefix("\ufeff")


def _read_text(path: Path, content: bytes) -> Table:
    return Table({CHARACTER: characters([_decoded(path, content).replace("\r\n", "\n").rstrip("\n")])})


def _read_csv(path: Path, content: bytes) -> Table:
    written = _decoded(path, content)
    first = written.lstrip("\r\n").split("\n", 1)[0]
    delimiter = max(DELIMITERS, key=lambda each: first.count(each)) if path.suffix.lower() == ".csv" else "\t"
    try:
        reader = csv.reader(io.StringIO(written, newline=""), delimiter=delimiter, strict=True)
        names, rows = _rows(path, reader)
    except csv.Error as error:
        raise DataError(f"{path} is not a CSV file: {error} in line {reader.line_num}") from None
    columns = {name: _texts(cells) for name, cells in zip(names, zip(*rows, strict=True), strict=True)} if rows else {}
    if delimiter == ";":
        columns = {name: _with_decimal_points(column) for name, column in columns.items()}
    return Table(columns or {name: _texts([]) for name in names})


def _rows(path: Path, reader: Any) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns and the rows of a CSV file. Empty lines are skipped."""
    names, rows = check_names(next(filter(None, reader)), str(path)), []
    for row in reader:
        if row and len(row) != len(names):
            raise DataError(
                f"{path} must have {len(names)} cells in each line, as in the first, got {len(row)} in line {reader.line_num}"
            )
        if row:
            rows.append(row)
    return names, rows


def check_names(names: Sequence[str], source: str) -> list[str]:
    """Return the names of columns without spaces around them.

    Raises:
        DataError: A name is empty or occurs twice, or all are numbers, so that the line of names is probably missing.
    """
    names = [name.strip() for name in names]
    if odd := next((name for name in names if not name.isprintable()), None):
        raise DataError(f"the first line of {source} names a column with characters that cannot be printed: {odd!r}")
    if any(not name for name in names):
        raise DataError(f"the first line of {source} must name every column. The name of column {names.index('') + 1} is empty")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise DataError(f"the first line of {source} names two columns {twice!r}. Rename one of them")
    if Column(numpy.array(names, dtype=object)).numbers is not None:
        raise DataError(f"the first line of {source} must have the names of the columns, got only numbers: {_listed(names, 5)}")
    return names


def _with_decimal_points(column: Column) -> Column:
    """Return a column of numbers such as 3,14 with points; another column as it is."""
    if column.numbers is None:
        points = _texts(cell.replace(",", ".") for cell in column.cells)
        return points if points.numbers is not None else column
    return column


def _array(name: str, values: Any, source: str) -> NDArray[Any]:
    try:
        return numpy.asarray(values)
    except ValueError:  # lists of unequal length
        raise DataError(f"the column {name!r} of {source} must hold numbers or texts, got a nested list") from None


def _is_rounded(values: NDArray[Any]) -> bool:
    """Return whether there are whole numbers that float64 may not tell apart."""
    return bool((numpy.abs(values.astype(numpy.float64)) >= EXACT).any())


def _column(name: str, values: NDArray[Any], source: str) -> Column:
    """Return an array [n] as a column."""
    if values.ndim != 1:
        raise DataError(f"the column {name!r} of {source} must have one axis, got shape {values.shape}")
    if values.dtype.kind in "iu" and _is_rounded(values):
        return _texts(values.tolist())
    if values.dtype.kind in "fiu":
        return Column(values.astype(numpy.float64))
    if values.dtype.kind == "M":
        dates = numpy.datetime_as_string(values)
        return _texts("" if each == "NaT" else each for each in dates.tolist())
    if values.dtype.kind == "S":
        return _texts(each.decode("utf-8", "replace") for each in values.tolist())
    if values.dtype.kind in "UbO":
        found = values.tolist()
        if wrong := [each for each in found if not isinstance(each, str | int | float | None)]:
            raise DataError(f"the column {name!r} of {source} must hold numbers or texts, got a {type(wrong[0]).__name__}")
        return _texts("" if each is None else str(each) for each in found)
    raise DataError(f"the column {name!r} of {source} must hold numbers or texts, got values of type {values.dtype}")


def _read_parquet(path: Path, content: bytes) -> Table:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingPackageError(f"{path}: Parquet files need the package pyarrow: pip install 'srnn[parquet]'") from None
    try:
        found = pyarrow.parquet.read_table(io.BytesIO(content))
        arrays = {}
        for name, each in zip(found.column_names, found.columns, strict=True):
            if pyarrow.types.is_dictionary(each.type):
                each = each.cast(each.type.value_type)  # to_numpy would give a category for a missing value
            is_listed = pyarrow.types.is_nested(each.type)
            is_listed |= pyarrow.types.is_integer(each.type) and each.null_count and _is_rounded(each.to_numpy())
            arrays[name] = numpy.array(each.to_pylist(), dtype=object) if is_listed else each.to_numpy()
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path} is not a Parquet file that pyarrow can read: {str(error).splitlines()[0]}") from None
    return Table({name: _column(name, values, str(path)) for name, values in arrays.items()})


def _read_npz(path: Path, content: bytes) -> Table:
    arrays: dict[str, NDArray[Any]] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for name in archive.namelist():
                with archive.open(name) as member:
                    arrays[name.removesuffix(".npy")] = numpy.lib.format.read_array(member, allow_pickle=False)
    except (zipfile.BadZipFile, ValueError, OSError, EOFError, KeyError, RuntimeError, zlib.error) as error:
        raise DataError(f"{path} is not an NPZ file of plain arrays: {str(error).splitlines()[0]}") from None
    if not arrays or any(not each.ndim or not each.size for each in arrays.values()):
        raise DataError(f"{path} must hold arrays of the same first axis, with at least one entry each")
    sizes = {name: len(each) for name, each in arrays.items()}
    if len(set(sizes.values())) > 1:
        shown = ", ".join(f"{name} {each.shape}" for name, each in arrays.items())
        raise DataError(f"the arrays of {path} must have the same first axis, got {shown}")
    if all(each.ndim == 1 for each in arrays.values()):
        return Table({name: _column(name, each, str(path)) for name, each in arrays.items()})
    return _unrolled(path, arrays)


def _unrolled(path: Path, arrays: dict[str, NDArray[Any]]) -> Table:
    """Return the table of arrays [N, T, C] (C columns), [N, T] (one column) and [N] (the same at all T steps of a sequence).

    An array `lengths` [N] says how many steps each sequence has. Without it, steps at the end with only nan are cut.
    """
    shapes = {name: each.shape for name, each in arrays.items() if each.ndim > 1}
    steps = {shape[1] for shape in shapes.values()}
    if len(steps) > 1 or any(len(shape) > 3 for shape in shapes.values()):
        raise DataError(f"the arrays of {path} must be [N], [N, T] or [N, T, C] with the same T, got {shapes}")
    N, T = len(next(iter(arrays.values()))), steps.pop()
    given = arrays.pop("lengths", None)
    if given is not None and (given.dtype.kind not in "iu" or given.shape != (N,) or given.min() < 1 or given.max() > T):
        raise DataError(f"lengths of {path} must be {N} whole numbers from 1 to {T}")
    columns: dict[str, NDArray[Any]] = {}
    for name, each in arrays.items():
        if each.ndim == 3:
            columns |= {f"{name}{c}" if each.shape[2] > 1 else name: each[:, :, c] for c in range(each.shape[2])}
        else:
            columns[name] = each if each.ndim == 2 else numpy.repeat(each[:, None], T, axis=1)
    if given is None:
        real = [each for name, each in columns.items() if each.dtype.kind == "f" and arrays.get(name, each).ndim > 1]
        given = lengths_before_end([numpy.isnan(each) for each in real], N, T)
    kept = numpy.arange(T) < given[:, None]
    id = free_name(SEQUENCE, columns)
    found = {id: _texts(numpy.repeat(numpy.arange(1, N + 1), given))}
    found |= {name: _column(name, each[kept], str(path)) for name, each in columns.items()}
    return Table(found, id=id)


def free_name(name: str, taken: Container[str]) -> str:
    """Return a name for a new column, with "_" at its end if another column has it already."""
    while name in taken:
        name += "_"
    return name


def lengths_before_end(missing: Sequence[NDArray[numpy.bool_]], N: int, T: int) -> NDArray[numpy.int64]:
    """Return how many steps each of N sequences has before only missing values follow, given where [N, T] they are."""
    if not missing:
        return numpy.full(N, T)
    there = ~numpy.logical_and.reduce(missing)
    return numpy.where(there.any(axis=1), T - there[:, ::-1].argmax(axis=1), 0)


READERS: dict[str, Callable[[Path, bytes], Table]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".npz": _read_npz,
    ".parquet": _read_parquet,
    ".txt": _read_text,
}
