"""The network srnnstack: its settings reach the layer, answers are taken from its output, wrong settings are refused."""

from typing import Any

import pytest
import torch

from srnn import SRNNStack
from srnn import layer as layer_module
from srnn.errors import SettingError
from srnn.lab.networks.srnnstack import SRNNStackNetwork
from srnn.lab.tasks.task import Batch
from srnn.lab.training import model as models
from srnn.lab.training.recipes import make_run


def test_settings_reach_the_layer() -> None:
    network = SRNNStackNetwork(
        20, num_layers=3, width=6, gate_init=-40.0, block_dropout=0.25, activation="relu", permutation="identity"
    )
    layer = network.layer(7, 100)
    assert isinstance(layer, SRNNStack)
    assert (layer.input_size, layer.hidden_size, layer.num_layers, layer.width) == (7, 20, 3, 6)
    assert (layer.gate_init, layer.dropout, layer.batch_first) == (-40.0, 0.25, True)
    units = list(range(10))  # half of hidden_size; the other half are delayed inputs
    assert (layer.activation, layer.blocks[2].rnn.permutation.tolist()) == ("relu", units)
    assert all((block.rnn.b[0].gate.bias < -30).all() for block in layer.blocks)


def test_defaults_are_those_of_the_layer() -> None:
    network, layer = SRNNStackNetwork(20), SRNNStack(3, 20)
    assert network.layer(3, 100).width == layer.width
    assert (network.num_layers, network.activation) == (layer.num_layers, layer.activation)
    assert (network.gate_init, network.permutation) == (layer_module.GATE_INIT, layer._permutation_name)


def test_the_mlp_of_a_task_is_that_of_srnn() -> None:
    layers: list[Any] = [make_run("speech", name).network.layer(129, 100) for name in ("srnn", "srnnstack")]
    assert [layer.mlp for layer in layers] == [(32, 32, 32), ()]


@pytest.mark.parametrize("task", ["copy", "adding"])
def test_the_read_out_sees_the_output_and_not_the_states(task: str) -> None:
    run = make_run(task, "srnnstack", length=12, hidden_size=16)
    model = models.make(run.task, run.network, 1, readout=(), norm=False, dropout=0.0).double()
    batch = run.task.batch(0, 4, 1)
    x = batch.input if run.task.symbols else batch.input.double()
    output, h_n = model.rnn(x, alphabet=model.symbols)
    assert not torch.allclose(output[:, -1], h_n[-1])
    expected = model.readout(output if run.task.every_step else output[:, -1])
    torch.testing.assert_close(model(Batch(x, batch.target)), expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": -1}, "srnnstack: width must be a whole number of at least 0, got -1"),
        ({"width": True}, "srnnstack: width must be a whole number of at least 0, got True"),
        ({"activation": "gelu"}, "srnnstack: activation must be one of relu, tanh, clip, got 'gelu'. Did you mean 'relu'?"),
        ({"permutation": "back"}, "srnnstack: permutation must be one of shift, partial, identity, random, got 'back'"),
        ({"block_dropout": 1.0}, "srnnstack: block_dropout must be a number from 0 to below 1, got 1.0"),
        ({"gate_init": float("nan")}, "srnnstack: gate_init must be a finite number, got nan"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as raised:
        SRNNStackNetwork(8, **settings)
    assert str(raised.value) == message
