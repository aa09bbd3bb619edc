"""Stacks of layers: residual blocks of norm, layer and mixing after an encoder, or layers with nothing in between."""

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from srnn.lab.networks.recurrent import Recurrent


class Stack(Recurrent):
    """x = encode(input), then in every block x = x + mix(layer(norm(x))) and, if `feed` is given, x = x + feed(x)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        *,
        layer: Callable[[], Recurrent],
        mix: Callable[[], nn.Module],
        feed: Callable[[], nn.Module] | None = None,
        batch_first: bool = False,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, batch_first=batch_first)
        self.encode = nn.Linear(input_size, hidden_size)
        self.norms = nn.ModuleList(nn.LayerNorm(hidden_size) for _ in range(num_layers))
        self.layers = nn.ModuleList(layer() for _ in range(num_layers))
        self.mixes = nn.ModuleList(mix() for _ in range(num_layers))
        self.feeds = None if feed is None else nn.ModuleList(feed() for _ in range(num_layers))
        self.state_is_complex = any(part.state_is_complex for part in self.layers.children() if isinstance(part, Recurrent))

    def scan(self, x: Tensor, hx: Tensor | None) -> tuple[Tensor, Tensor]:
        x, last = self.encode(x), []
        parts: Any = zip(self.norms, self.layers, self.mixes, strict=True)
        for k, (norm, layer, mix) in enumerate(parts):
            y, h = layer.scan(norm(x), None if hx is None else hx[k : k + 1])
            x = x + mix(y)
            x = x if self.feeds is None else x + self.feeds[k](x)
            last.append(h)
        return x, torch.cat(last)


class Bare(Recurrent):
    """Layers on top of each other with nothing in between."""

    def __init__(self, layers: list[Recurrent], *, batch_first: bool = False) -> None:
        super().__init__(layers[0].input_size, layers[0].hidden_size, len(layers), batch_first=batch_first)
        self.layers = nn.ModuleList(layers)
        self.state_is_complex = layers[0].state_is_complex

    def scan(self, x: Tensor, hx: Tensor | None) -> tuple[Tensor, Tensor]:
        last, layers = [], cast(list[Recurrent], self.layers)
        for k, layer in enumerate(layers):
            x, h = layer.scan(x, None if hx is None else hx[k : k + 1])
            last.append(h)
        return x, torch.cat(last)
