"""The model of a run: embedding, recurrent layer, read-out."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from srnn.lab.networks.network import Network
from srnn.lab.tasks.task import Batch, Task


class Model(nn.Module):
    """Maps a batch to outputs [N, T, O], or [N, O] for tasks with one answer after the last step.

    Args:
        task: Its sizes are used.
        network: Makes the recurrent layer.
        embed: Whether symbols have a learned embedding; otherwise they are one-hot vectors.
        readout: Widths of the hidden layers of the read-out, with ReLU; () for an affine read-out.
        norm: Whether a layer norm comes before the read-out.
        dropout: Probability, before the read-out and after each of its hidden layers.

    Attributes:
        calibration: What the task found about the errors of the trained model, for the margins of its answers.
    """

    alphabet: Tensor | None

    def __init__(
        self, task: Task, network: Network, *, embed: bool = True, readout: tuple[int, ...], norm: bool, dropout: float
    ) -> None:
        super().__init__()
        self.task = task
        self.calibration: dict[str, Any] | None = None
        embed = embed and task.symbols > 0
        C = network.embedding_size if embed else task.symbols or task.input_size
        self.embedding = nn.Embedding(task.symbols, C) if embed else None
        one_hot = torch.eye(task.symbols) if task.symbols and not embed else None
        self.register_buffer("alphabet", task.alphabet if one_hot is None else one_hot, persistent=False)
        self.rnn: Any = network.layer(C, task.usual_steps)
        self.every_step, self.takes_symbols, self.last_output = task.every_step, network.takes_symbols, network.last_output
        self.readout = _readout((network.output_size(C), *readout, task.output_size), norm, dropout)
        network.begin_readout(self.readout[-1], task.name)  # type: ignore[arg-type]

    def forward(self, batch: Batch) -> Tensor:
        if self.takes_symbols and not self.every_step:
            return self.readout(self.last_output(self.rnn, batch.input, self.symbols, batch.lengths))
        states = self.states(batch.input)[0]
        if self.every_step:
            return self.readout(states)
        return self.readout(states[:, -1] if batch.lengths is None else _last(states, batch.lengths))

    @property
    def symbols(self) -> Tensor | None:
        """The input of the layer for each symbol, [V, C]; None for real inputs."""
        return self.alphabet if self.embedding is None else self.embedding.weight

    def states(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """Return the layer's output at all steps and its last state, for inputs or symbols as in a batch."""
        if self.takes_symbols:  # b once per symbol, not once per step
            return self.rnn(x, state, alphabet=self.symbols)
        return self.rnn(x if self.symbols is None else nn.functional.embedding(x.long(), self.symbols), state)

    @torch.no_grad()
    def predict(self, data: Any, *, level: float = 0.9) -> Any:
        """Return answers to new data, in evaluation mode.

        Args:
            data: For a model of `srnn fit`: the path of a file or folder, a table, a dict of columns or a DataFrame. For other
                models: an input [N, T, C], symbols [N, T] or a `Batch`.
            level: For a model of `srnn fit` that predicts numbers: how often an interval should hold the true number.

        Returns:
            For a model of `srnn fit` a list of answers, each a dict (see srnn/lab/tasks/prediction.py). For other models the
            outputs.
        """
        self.eval()
        return self.task.predict(self, data, level=level)

    def count_parameters(self) -> int:
        """Return the number of parameters."""
        return sum(parameter.numel() for parameter in self.parameters())


def _last(states: Tensor, lengths: Tensor) -> Tensor:
    """Return the states after each row's last step, [N, H], of states [N, T, H]; zeros for rows without steps."""
    found = states[torch.arange(len(states)), lengths.long() - 1]
    return torch.where(lengths[:, None] > 0, found, 0)


def _readout(widths: tuple[int, ...], norm: bool, dropout: float) -> nn.Sequential:
    parts: list[nn.Module] = [nn.LayerNorm(widths[0])] if norm else []
    if dropout:
        parts.append(nn.Dropout(dropout))
    for m, n in pairwise(widths[:-1]):
        parts += [nn.Linear(m, n), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
    return nn.Sequential(*parts, nn.Linear(widths[-2], widths[-1]))


def make(task: Task, network: Network, seed: int, **readout: Any) -> Model:
    """Return the model with weights drawn from the seed. torch's random generator is not changed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Model(task, network, **readout)
