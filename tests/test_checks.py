"""Wrong settings and wrong calls: the class of each error, which is also the kind that `nn.GRU` raises, and its words."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence
from torch.utils._python_dispatch import TorchDispatchMode

from srnn import SRNN, SRNNCell, SRNNStack
from srnn.errors import DeviceError, DtypeError, LengthError, SettingError, SettingTypeError, ShapeError, SRNNError, SymbolError

C, H, N, T, V = 3, 5, 4, 6, 7


@contextmanager
def assert_refused(kind: type[SRNNError], message: str) -> Iterator[None]:
    """An error of this class, of one line, that has the parts of this message in it."""
    with pytest.raises(kind) as raised:
        yield
    assert "\n" not in str(raised.value)
    for part in message.split(" ... "):
        assert part in str(raised.value)


SETTING_ERRORS: list[tuple[dict[str, Any], type[SRNNError], str]] = [
    ({"input_size": 0}, SettingError, "input_size must be at least 1, got 0"),
    ({"input_size": 2.0}, SettingTypeError, "input_size must be an integer, got 2.0"),
    ({"hidden_size": 0}, SettingError, "hidden_size must be at least 1, got 0"),
    ({"hidden_size": -3}, SettingError, "hidden_size must be at least 1, got -3"),
    ({"hidden_size": "5"}, SettingTypeError, "hidden_size must be an integer, got '5'"),
    ({"mlp": (4, 0)}, SettingError, "mlp[1] must be at least 1, got 0"),
    ({"mlp": (4, 2.5)}, SettingTypeError, "mlp[1] must be an integer, got 2.5"),
    ({"mlp": 32}, SettingTypeError, "mlp must be the widths ... such as (32, 32), got 32"),
    ({"activation": "gelu"}, SettingError, "no activation is called 'gelu'. Choose one of relu, tanh, clip"),
    ({"activation": ["relu"]}, SettingError, "no activation is called ['relu']. Choose one of relu, tanh, clip"),
    ({"permutation": "turn"}, SettingError, "no permutation is called 'turn'. Choose one of shift, partial, identity, random"),
    (
        {"permutation": torch.tensor([0, 1, 2, 3, 3])},
        SettingError,
        "permutation must hold ... once, one for each unit, got shape",
    ),
    (
        {"permutation": torch.tensor([1, 2, 3, 4, 5])},
        SettingError,
        "permutation must hold ... once, one for each unit, got shape",
    ),
    ({"permutation": torch.tensor([0, 1])}, SettingError, "permutation must hold ... once, one for each unit"),
    ({"permutation": torch.arange(300)}, SettingError, "one for each unit, got shape (300,): [0, 1, 2, 3, 4, 5, ...]"),
    ({"permutation": torch.arange(5)[None]}, SettingError, "permutation must hold ... once, one for each unit"),
    ({"permutation": torch.tensor(0)}, SettingError, "permutation must hold ... once, one for each unit"),
    ({"permutation": [4, 3, 2, 1, 0]}, SettingTypeError, "must be shift, partial, identity, random or an index tensor, got ["),
    ({"dtype": "float32"}, DtypeError, "dtype must be one of floating point, such as torch.float32, got 'float32'"),
    ({"dtype": torch.int32}, DtypeError, "dtype must be one of floating point, such as torch.float32, got torch.int32"),
    ({"permutation": torch.arange(5.0)}, SettingError, "permutation must hold ... once, one for each unit"),
    ({"gate": 1}, SettingTypeError, "gate must be True or False, got 1"),
    ({"bias": None}, SettingTypeError, "bias must be True or False, got None"),
    *(
        ({"gate_init": value}, SettingError, f"gate_init must be a finite number, such as -3.0, or None, got {value!r}")
        for value in (float("nan"), float("-inf"), True, "closed", (1.0,))
    ),
    ({"gate_init": -3.0, "gate": False}, SettingError, "gate_init starts ... gate=False leaves no gate. ... (got -3.0)"),
    ({"gate_init": 0.0, "bias": False}, SettingError, "gate_init starts ... bias=False leaves the gate without a bias"),
]
LAYER_SETTING_ERRORS: list[tuple[dict[str, Any], type[SRNNError], str]] = [
    ({"num_layers": 0}, SettingError, "num_layers must be at least 1, got 0"),
    ({"batch_first": "yes"}, SettingTypeError, "batch_first must be True or False, got 'yes'"),
    ({"bidirectional": 2}, SettingTypeError, "bidirectional must be True or False, got 2"),
    ({"dropout": 1.5}, SettingError, "dropout must be a number from 0 to 1, got 1.5"),
    ({"dropout": True}, SettingError, "dropout must be a number from 0 to 1, got True"),
]


STACK_SETTING_ERRORS: list[tuple[dict[str, Any], type[SRNNError], str]] = [
    ({"width": 0}, SettingError, "width must be at least 1, got 0"),
    ({"width": 8.0}, SettingTypeError, "width must be an integer, got 8.0"),
    ({"gate_init": float("nan")}, SettingError, "gate_init must be a finite number, such as -3.0, or None, got nan"),
    ({"gate_init": 0.0, "gate": False}, SettingError, "gate=False leaves no gate. Leave out gate_init (got 0.0)"),
]


@pytest.mark.parametrize(("settings", "kind", "message"), SETTING_ERRORS + LAYER_SETTING_ERRORS)
def test_a_wrong_setting_is_refused(settings: dict[str, Any], kind: type[SRNNError], message: str) -> None:
    with assert_refused(kind, message):
        SRNN(**{"input_size": C, "hidden_size": H, **settings})


@pytest.mark.parametrize(("settings", "kind", "message"), SETTING_ERRORS + LAYER_SETTING_ERRORS + STACK_SETTING_ERRORS)
def test_a_wrong_setting_of_a_stack_is_refused(settings: dict[str, Any], kind: type[SRNNError], message: str) -> None:
    with assert_refused(kind, message):
        SRNNStack(**{"input_size": C, "hidden_size": H, **settings})


@pytest.mark.parametrize(("settings", "kind", "message"), SETTING_ERRORS)
def test_a_wrong_setting_of_a_cell_is_refused(settings: dict[str, Any], kind: type[SRNNError], message: str) -> None:
    with assert_refused(kind, message):
        SRNNCell(**{"input_size": C, "hidden_size": H, **settings})


Call = Callable[[Any], Any]
X, HX = torch.zeros(T, N, C), torch.zeros(2, N, H)
IDS, ALPHABET = torch.zeros(T, N, dtype=torch.int64), torch.zeros(V, C)
PACKED = pack_padded_sequence(X, torch.tensor([3, T, 2, 1]), enforce_sorted=False)
RESET = torch.zeros(T, N, dtype=torch.bool)
NO_TENSOR: Any = [1.0]
PACKED_RESET = pack_padded_sequence(RESET, torch.tensor([3, T, 2, 1]), enforce_sorted=False)
HX_EXPECTED = "hx must be [layers * directions, batch, hidden] = (2, 4, 5) to go with input of shape"
FLOAT_EXPECTED = "must be torch.float32, like the weights, got torch"

GRU_ERRORS: dict[str, tuple[Call, type[SRNNError], str]] = {  # mistakes that one can make with nn.GRU as well
    "rank 1": (lambda m: m(X[0, 0]), ShapeError, "input must be [time, batch, inputs] or [time, inputs], got shape (3,)"),
    "rank 4": (lambda m: m(X[None]), ShapeError, "input must be [time, ... got shape (1, 6, 4, 3)"),
    "width": (lambda m: m(X[..., :2]), ShapeError, "input must be input_size = 3 wide, got shape (6, 4, 2)"),
    "packed width": (lambda m: m(PACKED._replace(data=PACKED.data[:, :2])), ShapeError, "data of input must be input_size = 3"),
    "hx rank": (lambda m: m(X, HX[:, 0]), ShapeError, f"{HX_EXPECTED} (6, 4, 3), got (2, 5)"),
    "hx rank, unbatched": (lambda m: m(X[:, 0], HX), ShapeError, "hx must be [layers * directions, hidden] = (2, 5) to go"),
    "hx layers": (lambda m: m(X, HX[:1]), ShapeError, f"{HX_EXPECTED} (6, 4, 3), got (1, 4, 5)"),
    "hx batch": (lambda m: m(X, HX[:, :3]), ShapeError, f"{HX_EXPECTED} (6, 4, 3), got (2, 3, 5)"),
    "hx hidden": (lambda m: m(X, HX[..., :4]), ShapeError, f"{HX_EXPECTED} (6, 4, 3), got (2, 4, 4)"),
    "hx dtype": (lambda m: m(X, HX.double()), DtypeError, f"hx {FLOAT_EXPECTED}.float64"),
    "hx device": (lambda m: m(X, HX.to("meta")), DeviceError, "hx is on meta and the weights are on cpu"),
    "dtype": (lambda m: m(X.double()), DtypeError, f"input {FLOAT_EXPECTED}.float64. Convert one"),
    "packed dtype": (lambda m: m(PACKED.double()), DtypeError, f"the data of input {FLOAT_EXPECTED}.float64"),
    "integers": (lambda m: m(X.long()), DtypeError, f"input {FLOAT_EXPECTED}.int64. Symbols need alphabet="),
    "device": (lambda m: m(X.to("meta")), DeviceError, "input is on meta and the weights are on cpu. Move one"),
}


def packed_with(sizes: list[int]) -> Call:
    return lambda m: m(PackedSequence(PACKED.data, torch.tensor(sizes, dtype=torch.int64)))


OWN_ERRORS: dict[str, tuple[Call, type[SRNNError], str]] = {
    "no tensor": (lambda m: m(X.tolist()), SettingTypeError, "input must be a tensor, got list"),
    "the pair of an LSTM": (
        lambda m: m(X, (HX, HX)),
        SettingTypeError,
        "hx must be a tensor, got tuple. ... as that of nn.GRU",
    ),
    "no alphabet": (lambda m: m(IDS, alphabet=[[0.0]]), SettingTypeError, "alphabet must be a tensor, got list"),
    "hx batch, packed": (lambda m: m(PACKED, HX[:, :3]), ShapeError, f"{HX_EXPECTED} (12, 3), got (2, 3, 5)"),
    "hx too many, packed": (lambda m: m(PACKED, torch.zeros(2, 9, H)), ShapeError, f"{HX_EXPECTED} (12, 3), got (2, 9, 5)"),
    "packed rank": (lambda m: m(PACKED, alphabet=ALPHABET), ShapeError, "data of input must be [steps], got shape (12, 3)"),
    "symbols rank": (
        lambda m: m(X, alphabet=ALPHABET),
        ShapeError,
        "input must be [time, batch] or [time], got shape (6, 4, 3)",
    ),
    "symbols float": (lambda m: m(IDS.float(), alphabet=ALPHABET), DtypeError, "input must hold symbols ... got torch.float32"),
    "symbols int16": (lambda m: m(IDS.short(), alphabet=ALPHABET), DtypeError, "uint8, int32 or int64 ... got torch.int16"),
    "symbols device": (lambda m: m(IDS.to("meta"), alphabet=ALPHABET), DeviceError, "input is on meta"),
    "alphabet width": (
        lambda m: m(IDS, alphabet=ALPHABET[:, :2]),
        ShapeError,
        "alphabet must be ... = 3 wide, got shape (7, 2)",
    ),
    "alphabet rank": (
        lambda m: m(IDS, alphabet=ALPHABET[0]),
        ShapeError,
        "alphabet must be [symbols, inputs] ... got shape (3,)",
    ),
    "alphabet dtype": (lambda m: m(IDS, alphabet=ALPHABET.double()), DtypeError, f"alphabet {FLOAT_EXPECTED}.float64"),
    "alphabet device": (lambda m: m(IDS, alphabet=ALPHABET.to("meta")), DeviceError, "alphabet is on meta"),
    "lengths shape": (lambda m: m(X, lengths=[1, 2]), ShapeError, "lengths must be [batch] = (4,) to go ... got (2,)"),
    "lengths kind": (
        lambda m: m(X, lengths=[1, None, 2, 3]),
        SettingTypeError,
        "lengths must be integers, [4] of them, got [1, None, 2, 3]",
    ),
    "lengths text": (lambda m: m(X, lengths="abcd"), SettingTypeError, "lengths must be integers, [4] of them, got 'abcd'"),
    "lengths ragged": (
        lambda m: m(X, lengths=[[1], [1, 2]]),
        SettingTypeError,
        "lengths must be integers, [4] of them, got [[1], [1, 2]]",
    ),
    "lengths rank": (lambda m: m(X, lengths=3), ShapeError, "lengths must be [batch] = (4,) to go ... got ()"),
    "lengths dtype": (lambda m: m(X, lengths=[1.0, 2, 3, 4]), DtypeError, "lengths must be integers, got torch.float32"),
    "reset list": (lambda m: m(X, reset=[True]), SettingTypeError, "reset must be a tensor, got list"),
    "reset shape": (lambda m: m(X, reset=RESET.T), ShapeError, "reset must have the shape (6, 4) to go ... got (4, 6)"),
    "reset of symbols": (
        lambda m: m(IDS, alphabet=ALPHABET, reset=RESET[0]),
        ShapeError,
        "reset must have the shape (6, 4) to go with input of shape (6, 4), got (4,)",
    ),
    "reset dtype": (lambda m: m(X, reset=RESET.float()), DtypeError, "reset must be torch.bool, got torch.float32"),
    "reset device": (lambda m: m(X, reset=RESET.to("meta")), DeviceError, "reset is on meta and input is on cpu"),
    "reset of packed": (
        lambda m: m(PACKED, reset=RESET),
        SettingTypeError,
        "reset must be a PackedSequence of the same layout",
    ),
    "reset packed": (lambda m: m(X, reset=PACKED), SettingTypeError, "reset must be a tensor, got PackedSequence"),
    "reset packed otherwise": (
        lambda m: m(PACKED, reset=pack_padded_sequence(RESET, torch.tensor([6, 3, 2, 1]))),
        ShapeError,
        "reset must be packed with the lengths and the order of input",
    ),
    "reset packed dtype": (lambda m: m(PACKED, reset=PACKED_RESET.float()), DtypeError, "reset must be torch.bool"),
    **{
        f"batch sizes {sizes}": (
            packed_with(sizes),
            ShapeError,
            "a PackedSequence must have batch_sizes that never grow and add up to 12, ... got shape ... pack_padded_sequence",
        )
        for sizes in ([3, 4, 5], [6, 5], [6, 7], [13, -1], [])
    },
    "lengths of packed": (lambda m: m(PACKED, lengths=[3, 6, 2, 1]), LengthError, "a PackedSequence has lengths of its own"),
}
VALUE_ERRORS: dict[str, tuple[Call, type[SRNNError], str]] = {
    "lengths too long": (lambda m: m(X, lengths=[1, 7, 2, 3]), LengthError, "lengths ... 7"),
    "lengths negative": (lambda m: m(X, lengths=[1, -1, 2, 3]), LengthError, "lengths ... -1"),
    "lengths too long, symbols": (lambda m: m(IDS, lengths=[1, 7, 2, 3], alphabet=ALPHABET), LengthError, "lengths ... 7"),
    "symbol too large": (lambda m: m(IDS + V, alphabet=ALPHABET), SymbolError, "symbols ... alphabet ... 7"),
    "symbol negative": (lambda m: m(IDS - 1, alphabet=ALPHABET), SymbolError, "ids ... -1"),
    "symbol of no alphabet": (lambda m: m(IDS, alphabet=ALPHABET[:0]), SymbolError, "ids"),
}


class Operators(TorchDispatchMode):
    """Notes every operator that runs."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


METHODS: list[Callable[[], Any]] = [
    lambda: SRNN(C, H, 2),
    lambda: SRNN(C, H, 2).final_state,
    lambda: SRNNStack(C, H, 2),
    lambda: SRNNStack(C, H, 2).final_state,
    lambda: SRNNStack(C, H, 2).final_output,
]


@pytest.mark.parametrize("case", GRU_ERRORS | OWN_ERRORS)
def test_a_wrong_call_is_refused_before_anything_is_computed(case: str) -> None:
    call, kind, message = (GRU_ERRORS | OWN_ERRORS)[case]
    for method in (make() for make in METHODS):
        with Operators() as ran, assert_refused(kind, message):
            call(method)
        assert not [name for name in ran.names if "mm" in name or "srnn" in name]


@pytest.mark.parametrize("case", VALUE_ERRORS)
def test_wrong_symbols_and_lengths_are_refused(case: str) -> None:
    call, kind, message = VALUE_ERRORS[case]
    for method in (make() for make in METHODS):
        with assert_refused(kind, message):
            call(method)


@pytest.mark.parametrize("case", GRU_ERRORS)
def test_an_error_is_also_of_the_kind_that_gru_raises(case: str) -> None:
    call, kind, _ = GRU_ERRORS[case]
    with pytest.raises((ValueError, TypeError, RuntimeError, IndexError)) as raised:
        call(nn.GRU(C, H, 2))
    assert issubclass(kind, raised.type)


@pytest.mark.parametrize(
    "wrong", ["input_size=0", "hidden_size=0", "hidden_size=5.5", "num_layers=0", "dropout=2", "bias=1", "batch_first=1"]
)
def test_an_error_of_settings_is_also_of_the_kind_that_gru_raises(wrong: str) -> None:
    name, value = wrong.split("=")
    settings: dict[str, Any] = {"input_size": C, "hidden_size": H, name: float(value) if "." in value else int(value)}
    with pytest.raises((ValueError, TypeError)) as expected:
        nn.GRU(**settings)
    with pytest.raises(expected.type) as raised:
        SRNN(**settings)
    assert issubclass(raised.type, SRNNError)


STEP_ERRORS: dict[str, tuple[Callable[[SRNN, SRNNCell], Any], type[SRNNError], str]] = {
    "rank": (lambda rnn, cell: rnn.step(X), ShapeError, "x_t must be [batch, inputs] or [inputs], got shape (6, 4, 3)"),
    "width": (lambda rnn, cell: rnn.step(X[0, :, :2]), ShapeError, "x_t must be input_size = 3 wide"),
    "h": (lambda rnn, cell: rnn.step(X[0], HX[0]), ShapeError, "h must be [layers, batch, hidden] = (2, 4, 5) ... got (4, 5)"),
    "h unbatched": (lambda rnn, cell: rnn.step(X[0, 0], HX), ShapeError, "h must be [layers, hidden] = (2, 5)"),
    "dtype": (lambda rnn, cell: rnn.step(X[0].double()), DtypeError, f"x_t {FLOAT_EXPECTED}.float64"),
    "h dtype": (lambda rnn, cell: rnn.step(X[0], HX.double()), DtypeError, f"h {FLOAT_EXPECTED}.float64"),
    "device": (lambda rnn, cell: rnn.step(X[0].to("meta")), DeviceError, "x_t is on meta"),
    "reset shape": (lambda rnn, cell: rnn.step(X[0], HX, RESET), ShapeError, "reset must have the shape (4,) to go ... (6, 4)"),
    "reset dtype": (lambda rnn, cell: rnn.step(X[0], HX, IDS[0]), DtypeError, "reset must be torch.bool, got torch.int64"),
    "direction": (lambda rnn, cell: SRNN(C, H, bidirectional=True).step(X[0]), SettingError, "step goes ... bidirectional"),
    "list": (lambda rnn, cell: rnn.step(NO_TENSOR), SettingTypeError, "x_t must be a tensor, got list"),
    "h list": (lambda rnn, cell: rnn.step(X[0], NO_TENSOR), SettingTypeError, "h must be a tensor, got list"),
    "cell list": (lambda rnn, cell: cell(NO_TENSOR), SettingTypeError, "input must be a tensor, got list"),
    "cell rank": (lambda rnn, cell: cell(X), ShapeError, "input must be [batch, inputs] or [inputs], got shape (6, 4, 3)"),
    "cell width": (lambda rnn, cell: cell(X[0, :, :2]), ShapeError, "input must be input_size = 3 wide"),
    "cell h": (lambda rnn, cell: cell(X[0], HX), ShapeError, "hx must be [batch, hidden] = (4, 5) ... got (2, 4, 5)"),
    "cell dtype": (lambda rnn, cell: cell(X[0].long()), DtypeError, f"input {FLOAT_EXPECTED}.int64"),
}


STACK_STEP_ERRORS: dict[str, tuple[Callable[[SRNNStack], Any], type[SRNNError], str]] = {
    "rank": (lambda rnn: rnn.step(X), ShapeError, "x must be [batch, inputs] or [inputs], got shape (6, 4, 3)"),
    "width": (lambda rnn: rnn.step(X[0, :, :2]), ShapeError, "x must be input_size = 3 wide"),
    "h": (lambda rnn: rnn.step(X[0], HX[0]), ShapeError, "h must be [layers, batch, hidden] = (2, 4, 5) ... got (4, 5)"),
    "h unbatched": (lambda rnn: rnn.step(X[0, 0], HX), ShapeError, "h must be [layers, hidden] = (2, 5)"),
    "dtype": (lambda rnn: rnn.step(X[0].double()), DtypeError, f"x {FLOAT_EXPECTED}.float64"),
    "h dtype": (lambda rnn: rnn.step(X[0], HX.double()), DtypeError, f"h {FLOAT_EXPECTED}.float64"),
    "device": (lambda rnn: rnn.step(X[0].to("meta")), DeviceError, "x is on meta"),
    "direction": (
        lambda rnn: SRNNStack(C, H, bidirectional=True).step(X[0], torch.zeros(4, N, H)),
        SettingError,
        "step goes ... bidirectional",
    ),
}


@pytest.mark.parametrize("case", STACK_STEP_ERRORS)
def test_a_wrong_step_of_a_stack_is_refused(case: str) -> None:
    call, kind, message = STACK_STEP_ERRORS[case]
    with assert_refused(kind, message):
        call(SRNNStack(C, H, 2))


@pytest.mark.parametrize("case", STEP_ERRORS)
def test_a_wrong_step_is_refused(case: str) -> None:
    call, kind, message = STEP_ERRORS[case]
    with assert_refused(kind, message):
        call(SRNN(C, H, 2), SRNNCell(C, H))
