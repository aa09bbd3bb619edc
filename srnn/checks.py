"""Checks of the arguments of the layers. Each check returns what it has verified, or raises an error that says what to do.

Tensors are checked by shape, dtype and device alone, before anything is computed, so that a compiled graph stays whole. The
operators check the values of symbols and lengths.
"""

import math
import reprlib
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from srnn.errors import DeviceError, DtypeError, SettingError, SettingTypeError, ShapeError

HALF = (torch.bfloat16, torch.float16)
SYMBOLS = (torch.uint8, torch.int32, torch.int64)
INDICES = (torch.int32, torch.int64)

Extents = dict[str, int]
Lengths = Tensor | Sequence[int] | int


def tensor(name: str, given: object, advice: str = "") -> None:
    """Raises unless the argument is a tensor."""
    if not isinstance(given, Tensor):
        raise SettingTypeError(f"{name} must be a tensor, got {type(given).__name__}{advice}")


def sizes(**settings: object) -> None:
    """Raises unless all settings are integers of at least 1."""
    for name, size in settings.items():
        if not isinstance(size, int) or isinstance(size, bool):
            raise SettingTypeError(f"{name} must be an integer, got {size!r}")
        if size < 1:
            raise SettingError(f"{name} must be at least 1, got {size}")


def flags(**settings: object) -> None:
    """Raises unless all settings are booleans."""
    for name, flag in settings.items():
        if not isinstance(flag, bool):
            raise SettingTypeError(f"{name} must be True or False, got {flag!r}")


def probability(name: str, p: object) -> float:
    """Returns a number from 0 to 1 as a float."""
    if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0 <= p <= 1:
        raise SettingError(f"{name} must be a number from 0 to 1, got {p!r}")
    return float(p)


def floating(dtype: object) -> None:
    """Raises unless the dtype is one of floating point, or None."""
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise DtypeError(f"dtype must be one of floating point, such as torch.float32, got {dtype!r}")


def gate_init(value: object, gate: bool, bias: bool) -> float | None:
    """Returns the shift of the gate's first bias, a finite number if there is such a bias; None is the library's default."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise SettingError(f"gate_init must be a finite number, such as -3.0, or None, got {value!r}")
    if not (gate and bias):
        missing = "gate=False leaves no gate" if not gate else "bias=False leaves the gate without a bias"
        raise SettingError(f"gate_init starts the bias of the gate, and {missing}. Leave out gate_init (got {value!r})")
    return float(value)


def permutation(index: Tensor, H: int) -> Tensor:
    """Returns a copy of an index tensor [H] that holds every unit once."""
    if index.dim() != 1 or index.dtype not in SYMBOLS or sorted(index.tolist()) != list(range(H)):
        raise SettingError(f"permutation must hold each of 0, ..., {H - 1} once, one for each unit, got {_shown(index)}")
    return index.detach().to(torch.int64, copy=True)


def device(name: str, tensor: Tensor, weight: Tensor) -> None:
    """Raises unless the tensor is on the device of the weights."""
    if tensor.device != weight.device:
        raise DeviceError(f"{name} is on {tensor.device} and the weights are on {weight.device}. Move one of them with .to()")


def autocast(weight: Tensor) -> bool:
    """Whether autocast decides the dtype of a product with this weight. It does not change float64."""
    kind = weight.device.type
    return weight.dtype != torch.float64 and torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)


def numbers(name: str, tensor: Tensor, weight: Tensor, advice: str = "Convert one of them with .to()") -> Tensor:
    """Returns a tensor with the device and the dtype of the weights; under autocast, converted to the dtype of autocast."""
    device(name, tensor, weight)
    if autocast(weight) and tensor.is_floating_point():
        return tensor.to(torch.get_autocast_dtype(weight.device.type))
    if tensor.dtype != weight.dtype:
        raise DtypeError(f"{name} must be {weight.dtype}, like the weights, got {tensor.dtype}. {advice}")
    return tensor


def state(name: str, h: Tensor | None, axes: Extents, like: Tensor, weight: Tensor) -> Tensor:
    """Returns the initial state, zeros for None.

    Under autocast, states are in half precision. Such a state may be passed on outside of autocast: it is converted to the
    dtype of the weights, which changes no value. Any other dtype than that of the weights is an error, as for the input.
    """
    shape = tuple(axes.values())
    if h is None:
        h = torch.zeros(shape, dtype=weight.dtype, device=weight.device)
    tensor(name, h, ". The state is one tensor, as that of nn.GRU")
    if tuple(h.shape) != shape:
        expected = f"[{', '.join(axes)}] = {shape} to go with input of shape {tuple(like.shape)}"
        raise ShapeError(f"{name} must be {expected}, got {tuple(h.shape)}")
    device(name, h, weight)
    if h.dtype in HALF and torch.promote_types(h.dtype, weight.dtype) == weight.dtype:
        h = h.to(weight.dtype)
    return numbers(name, h, weight)


def input(
    name: str, x: Tensor, alphabet: Tensor | None, C: int, weight: Tensor, *forms: tuple[str, ...]
) -> tuple[Tensor, Tensor | None, Extents]:
    """Checks an input, C numbers or one symbol of the alphabet [V, C] per step.

    Args:
        name: The name of the input in errors.
        x: The input.
        alphabet: What each symbol stands for, if the input holds symbols.
        C: The number of inputs.
        weight: A weight, for device and dtype.
        *forms: The allowed axes before the last, such as ("batch", "time").

    Returns:
        The input, the alphabet, and the extent of the batch axis if the input has one.
    """
    tensor(name, x)
    axes = [(*form, "inputs") if alphabet is None else form for form in forms]
    names = next((names for names in axes if len(names) == x.dim()), None)
    if names is None:
        expected = " or ".join(f"[{', '.join(names)}]" for names in axes)
        raise ShapeError(f"{name} must be {expected}, got shape {tuple(x.shape)}")
    batch = {name: extent for name, extent in zip(names, x.shape, strict=True) if name == "batch"}
    if alphabet is None:
        if x.shape[-1] != C:
            raise ShapeError(f"{name} must be input_size = {C} wide, got shape {tuple(x.shape)}")
        advice = {} if x.is_floating_point() else {"advice": "Symbols need alphabet="}
        return numbers(name, x, weight, **advice), None, batch
    tensor("alphabet", alphabet)
    if x.dtype not in SYMBOLS:
        raise DtypeError(f"{name} must hold symbols, as uint8, int32 or int64, to go with alphabet=, got {x.dtype}")
    if alphabet.dim() != 2 or alphabet.shape[1] != C:
        raise ShapeError(f"alphabet must be [symbols, inputs], input_size = {C} wide, got shape {tuple(alphabet.shape)}")
    device(name, x, weight)
    return x, numbers("alphabet", alphabet, weight), batch


def nested(x: Tensor, alphabet: Tensor | None, batch_first: bool) -> None:
    """Raises unless a nested tensor is jagged in time and the layer is batch first."""
    axes = ("batch", "time", "inputs") if alphabet is None else ("batch", "time")
    if x.layout != torch.jagged:
        raise ShapeError(f"a nested input must have layout torch.jagged, got {x.layout}. Make it with layout=torch.jagged")
    if not batch_first:
        raise SettingError("a nested input is batch first. Make the layer with batch_first=True")
    if x.dim() != len(axes) or isinstance(x.shape[1], int):  # the extent of a jagged axis is no int
        raise ShapeError(f"a nested input must be [{', '.join(axes)}], jagged in time, got shape {tuple(x.shape)}")


def reset(mask: object, shape: Sequence[int], like: Tensor) -> Tensor:
    """Returns a boolean mask with the batch and time axes of the input `like`."""
    tensor("reset", mask)
    assert isinstance(mask, Tensor)
    if tuple(mask.shape) != tuple(shape):
        expected = f"{tuple(shape)} to go with input of shape {tuple(like.shape)}"
        raise ShapeError(f"reset must have the shape {expected}, got {tuple(mask.shape)}")
    if mask.dtype != torch.bool:
        raise DtypeError(f"reset must be torch.bool, got {mask.dtype}. Convert it with .bool()")
    if mask.device != like.device:
        raise DeviceError(f"reset is on {mask.device} and input is on {like.device}. Move one of them with .to()")
    return mask


def packed(given: PackedSequence) -> None:
    """Raises unless the batch sizes of a PackedSequence never grow and add up to the steps of its data."""
    data, sizes = given.data, given.batch_sizes
    if len(sizes) == 0 or not ((sizes.diff() <= 0).all() & (sizes[-1] >= 0) & (sizes.sum() == data.shape[0])):
        expected = f"that never grow and add up to {data.shape[0]}, the steps of its data"
        raise ShapeError(f"a PackedSequence must have batch_sizes {expected}, got {_shown(sizes)}. Use pack_padded_sequence")


def packed_reset(mask: object, packed: PackedSequence) -> Tensor:
    """Returns the data of a packed mask that has the layout of a packed input."""
    if not isinstance(mask, PackedSequence):
        got = type(mask).__name__
        raise SettingTypeError(f"reset must be a PackedSequence of the same layout, like input, got {got}")
    theirs, ours = mask.sorted_indices, packed.sorted_indices
    same_rows = theirs is ours is None or (theirs is not None and ours is not None and torch.equal(theirs, ours))
    if not same_rows or not torch.equal(mask.batch_sizes, packed.batch_sizes):
        raise ShapeError("reset must be packed with the lengths and the order of input, got others")
    return reset(mask.data, packed.data.shape[:1], packed.data)


def lengths(given: Lengths, batch: Extents, x: Tensor) -> Tensor:
    """Returns lengths as int64 [N]; a single sequence has a single number."""
    shape = tuple(batch.values())
    try:
        ends = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError):
        raise SettingTypeError(f"lengths must be integers, {list(shape) or 'one'} of them, got {given!r}") from None
    if tuple(ends.shape) != shape:
        raise ShapeError(
            f"lengths must be [batch] = {shape} to go with input of shape {tuple(x.shape)}, got {tuple(ends.shape)}"
        )
    if (ends.is_floating_point() or ends.dtype == torch.bool) and ends.numel():  # an empty list makes a tensor of floats
        raise DtypeError(f"lengths must be integers, got {ends.dtype}")
    return ends.to(x.device, torch.int64).reshape(-1)


def _shown(tensor: Tensor) -> str:
    """The shape and the first numbers, in one line."""
    return f"shape {tuple(tensor.shape)}: {reprlib.repr(tensor.tolist())}"
