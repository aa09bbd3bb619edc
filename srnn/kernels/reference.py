"""The specification of `shuffle_scan`: a plain loop over time that every other backend must equal, in values and gradients."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

# sigma by name. "clip" keeps a state in [-1, 1]; its derivative is 0 at the bounds, as that of ReLU is at 0.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "tanh": torch.tanh, "clip": F.hardtanh}


def shuffle_scan(
    b: Tensor,
    h0: Tensor,
    ids: Tensor | None = None,
    permutation: Tensor | None = None,
    lengths: Tensor | None = None,
    reset: Tensor | None = None,
    reverse: bool = False,
    activation: str = "relu",
) -> tuple[Tensor, Tensor]:
    """h_t = sigma(P h_{t-1} + b_t), (P h)_i = h_{permutation[i]}; None is the shift, (P h)_i = h_{i+1}.

    b [N, T, H], or a table [V, H] whose row ids[n, t] is b_t of sequence n; h0 [N, H]. Returns the states [N, T, H], zero from
    a row's length on, and the state after each row's last step [N, H]. `reverse` runs from the last valid step to the first.
    reset [N, T]: where it is True a new sequence begins, so no state crosses the border between t - 1 and t, in either
    direction. Half precision is stored in half and carried in float32.
    """
    if ids is not None:
        b = b[ids.long()]
    N, T, H = b.shape
    source = torch.arange(H, device=b.device).roll(-1) if permutation is None else permutation.long()
    sigma = ACTIVATIONS[activation]
    wide = torch.promote_types(b.dtype, torch.float32)
    ends = torch.full((N,), T, device=b.device) if lengths is None else lengths
    h, states = h0.to(wide), [b.new_empty(0)] * T
    for t in reversed(range(T)) if reverse else range(T):
        valid, border = (t < ends)[:, None], t + reverse
        if reset is not None and border < T:
            h = torch.where((reset[:, border] & (border < ends))[:, None], 0, h)
        new = sigma(h[:, source] + b[:, t].to(wide).masked_fill(~valid, 0))  # what lies behind a row's end may be anything
        h = torch.where(valid, new, h)
        states[t] = torch.where(valid, new, 0)
    output = torch.stack(states, dim=1).to(b.dtype) if T else b.new_empty(N, 0, H)
    return output, h.to(b.dtype)
