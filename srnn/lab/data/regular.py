"""A check before a data file is opened: reading a pipe would wait for ever."""

import stat
from pathlib import Path

from srnn.errors import DataError, MissingError


def regular(path: Path) -> Path:
    """Return the path of a regular file.

    Raises:
        MissingError: There is no such file.
        DataError: It is a folder, a pipe or a device, or it cannot be looked up.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise MissingError(f"{path} cannot be read: No such file or directory") from None
    except (OSError, ValueError) as error:  # ValueError: the name holds a NUL
        raise DataError(f"{path} cannot be read: {getattr(error, 'strerror', error)}") from None
    if not stat.S_ISREG(mode):
        raise DataError(f"{path} cannot be read: it is not a regular file")
    return path
