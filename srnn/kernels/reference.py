"""The specification of `shuffle_scan`: a plain loop over time that every other backend must equal, in values and gradients."""

import torch
from torch import Tensor


def shuffle_scan(
    b: Tensor,
    h0: Tensor,
    ids: Tensor | None = None,
    permutation: Tensor | None = None,
    lengths: Tensor | None = None,
    reverse: bool = False,
    activation: str = "relu",
) -> tuple[Tensor, Tensor]:
    """h_t = sigma(P h_{t-1} + b_t), (P h)_i = h_{permutation[i]}; None is the shift, (P h)_i = h_{i+1}.

    b [N, T, H], or a table [V, H] whose row ids[n, t] is b_t of sequence n; h0 [N, H]. Returns the states [N, T, H], zero from
    a row's length on, and the state after each row's last step [N, H]. `reverse` runs from the last valid step to the first.
    Half precision is stored in half and carried in float32.
    """
    if ids is not None:
        b = b[ids.long()]
    N, T, H = b.shape
    source = torch.arange(H, device=b.device).roll(-1) if permutation is None else permutation.long()
    sigma = {"relu": torch.relu, "tanh": torch.tanh}[activation]
    wide = torch.promote_types(b.dtype, torch.float32)
    ends = torch.full((N,), T, device=b.device) if lengths is None else lengths
    h, states = h0.to(wide), [b.new_empty(0)] * T
    for t in reversed(range(T)) if reverse else range(T):
        valid = (t < ends)[:, None]
        new = sigma(h[:, source] + b[:, t].to(wide).masked_fill(~valid, 0))  # what lies behind a row's end may be anything
        h = torch.where(valid, new, h)
        states[t] = torch.where(valid, new, 0)
    output = torch.stack(states, dim=1).to(b.dtype) if T else b.new_empty(N, 0, H)
    return output, h.to(b.dtype)
