"""The specification of `shuffle_scan`: a plain loop over time. All backends must equal it in values and gradients."""

import torch
from torch import Tensor

from srnn.kernels.activations import ACTIVATIONS


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
    """Computes h_t = sigma(P h_{t-1} + b_t), where (P h)_i = h_{permutation[i]}.

    Half precision is stored in half and carried in float32.

    Args:
        b: [N, T, H], or a table [V, H] whose row ids[n, t] is b_t of sequence n.
        h0: The initial state [N, H].
        ids: Symbols [N, T], if b is a table.
        permutation: [H]; None is the shift, (P h)_i = h_{i+1}.
        lengths: [N]; steps from there on are not read.
        reset: [N, T]; True at t starts a new sequence there: no state passes from t - 1 to t or back.
        reverse: Whether each row runs from its last valid step to its first.
        activation: The name of sigma.

    Returns:
        The states [N, T, H], zero from a row's length on, and the state after each row's last step [N, H].
    """
    if ids is not None:
        b = b[ids.long()]
    N, T, H = b.shape
    source = torch.arange(H, device=b.device).roll(-1) if permutation is None else permutation.long()
    sigma = ACTIVATIONS[activation].function
    wide = torch.promote_types(b.dtype, torch.float32)
    ends = torch.full((N,), T, device=b.device) if lengths is None else lengths
    h, states = h0.to(wide), [b.new_empty(0)] * T
    for t in reversed(range(T)) if reverse else range(T):
        valid, border = (t < ends)[:, None], t + reverse
        if reset is not None and border < T:
            h = torch.where((reset[:, border] & (border < ends))[:, None], 0, h)
        new = sigma(h[:, source] + b[:, t].to(wide).masked_fill(~valid, 0))  # padding may hold anything
        h = torch.where(valid, new, h)
        states[t] = torch.where(valid, new, 0)
    output = torch.stack(states, dim=1).to(b.dtype) if T else b.new_empty(N, 0, H)
    return output, h.to(b.dtype)
