"""Triton's interpreter for tests: four times as fast, with bfloat16 rounded as GPUs do, and with a check of all accesses."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import triton.language as tl
from torch import Tensor
from triton.runtime import interpreter


class _Forever:
    """What the interpreter restores after a kernel: nothing."""

    def restore(self) -> None:
        pass


def keep_patches() -> None:
    """Patches triton.language at the first call from a module, and not at every call of a function inside a kernel."""
    patch, seen = interpreter._patch_lang, set[str]()

    def once(fn: Any) -> Any:
        if fn.__module__ not in seen:
            seen.add(fn.__module__)
            patch(fn)
        return _Forever()

    by_name, of = {}, interpreter._get_np_dtype

    def dtype_of(dtype: Any) -> Any:
        name = dtype.name if dtype.is_block() is False else dtype.element_ty.name
        if name not in by_name:
            by_name[name] = of(dtype)
        return by_name[name]

    # sums of integers are checked for overflow by computing each twice; 64-bit offsets have a test of their own
    interpreter.interpreter_builder.options = replace(interpreter.interpreter_builder.options, sanitize_overflow=False)
    interpreter._patch_lang, interpreter._get_np_dtype = once, dtype_of


def round_bfloat16() -> None:
    """Rounds float32 to the nearest bfloat16, where the interpreter cuts off."""
    convert = interpreter._convert_float

    def rounded(data: Any, source: Any, target: Any, mode: Any) -> Any:
        if (source, target) != (tl.float32, tl.bfloat16):
            return convert(data, source, target, mode)
        bits = np.ascontiguousarray(data).view(np.uint32)
        up = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        return np.where(np.isnan(data), bits >> 16 | 0x40, up).astype(np.uint16)

    interpreter._convert_float = rounded


@contextmanager
def bounds_checked() -> Iterator[None]:
    """Every load and store of a kernel outside of the tensors that it was given raises an IndexError."""
    ranges: list[Any] = [None, None]
    executor, builder = interpreter.GridExecutor, type(interpreter.interpreter_builder)
    start, load, store = executor._init_args_hst, builder.create_masked_load, builder.create_masked_store

    def begin(self: Any, args: Any, kwargs: Any) -> Any:
        found = sorted(
            (each.untyped_storage().data_ptr(), each.untyped_storage().data_ptr() + each.untyped_storage().nbytes())
            for each in args
            if isinstance(each, Tensor)
        )
        ranges[:] = np.array(found, dtype=np.uint64).T
        return start(self, args, kwargs)

    def check(pointers: Any, mask: Any) -> None:
        data, active = np.broadcast_arrays(pointers.data, mask.data)
        addresses = data[active.astype(bool)].astype(np.uint64)
        k = np.searchsorted(ranges[0], addresses, side="right")
        if (k == 0).any() or (addresses >= ranges[1][np.maximum(k, 1) - 1]).any():
            raise IndexError("a kernel reads or writes outside of the arguments")

    def checked_load(self: Any, pointers: Any, mask: Any, *rest: Any) -> Any:
        check(pointers, mask)
        return load(self, pointers, mask, *rest)

    def checked_store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        check(pointers, mask)
        return store(self, pointers, value, mask, *rest)

    executor._init_args_hst, builder.create_masked_load, builder.create_masked_store = begin, checked_load, checked_store
    try:
        yield
    finally:
        executor._init_args_hst, builder.create_masked_load, builder.create_masked_store = start, load, store
