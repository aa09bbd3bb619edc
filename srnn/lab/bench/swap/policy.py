"""Recurrent policy: find the way through a T-shaped maze, whose sign is at the start (Bakker, 2002).

      start                    junction
    [ sign ] . . . . . . . . . . [ ]  up or down: the sign says which

An agent sees the sign at the start only, then a corridor of half of `length` to `length` cells with noise in it, then the
junction. It can go forward, up or down. A step into a wall costs 0.1, the right arm is worth 1, the wrong one -1. It learns
from whole episodes by policy gradient with a learned baseline (advantage actor-critic). The score is the share of episodes that
end in the right arm, in percent, when the likeliest action is taken. Without memory it is 50.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from srnn.lab.bench.swap.program import RNN, Data, Program, Scores

FORWARD, UP, DOWN = ACTIONS = range(3)
NOISE, SPARE = 3, 10  # numbers of noise in an observation; steps that may be lost before an episode is cut
OBSERVED = 4 + NOISE  # sign up, sign down, corridor, junction, noise
DISCOUNT, VALUE_WEIGHT, ENTROPY_WEIGHT = 0.97, 0.5, 0.01


class Model(nn.Module):
    """Scores of the actions, the value of the state, and the state after the last."""

    def __init__(self, RNN: RNN, hidden_size: int) -> None:
        super().__init__()
        self.rnn = RNN(OBSERVED, hidden_size, batch_first=True)
        self.actor = nn.Linear(hidden_size, len(ACTIONS))
        self.critic = nn.Linear(hidden_size, 1)

    def forward(self, seen: Tensor, state: Any = None) -> tuple[Tensor, Tensor, Any]:
        output, state = self.rnn(seen, state)
        return self.actor(output), self.critic(output)[..., 0], state


class Episodes(NamedTuple):
    """What happened, [n, steps] each; `on`: whether the episode was still going. `won` [n]."""

    seen: Tensor
    actions: Tensor
    rewards: Tensor
    on: Tensor
    won: Tensor


@torch.no_grad()
def play(model: Any, data: Data, greedy: bool) -> Episodes:
    """Runs the policy until all episodes have ended."""
    signs, cells, noise = data
    n, state = len(signs), None
    place, going, won = torch.zeros(n, dtype=torch.int64), torch.ones(n, dtype=torch.bool), torch.zeros(n, dtype=torch.bool)
    steps: list[tuple[Tensor, ...]] = []
    while going.any() and len(steps) < noise.shape[1]:
        at_start, at_end = place == 0, place == cells
        flags = torch.stack([at_start & (signs == UP), at_start & (signs == DOWN), ~at_start & ~at_end, at_end], dim=1)
        seen = torch.cat([flags.float(), noise[:, len(steps)]], dim=1)
        scores, _, state = model(seen[:, None], state)
        scores = scores[:, 0]
        action = scores.argmax(dim=1) if greedy else torch.multinomial(scores.softmax(dim=1), 1)[:, 0]
        turns = at_end & (action != FORWARD)
        right = turns & (action == signs)
        moves = ~at_end & (action == FORWARD)
        reward = right.float() - (turns & ~right).float() - 0.1 * (~turns & ~moves).float()
        steps.append((seen, action, reward, going))
        won |= going & right
        place, going = place + moves.long(), going & ~turns
    seen, actions, rewards, on = (torch.stack(parts, dim=1) for parts in zip(*steps, strict=True))
    return Episodes(seen, actions, rewards, on, won)


def returns(rewards: Tensor, on: Tensor) -> Tensor:
    """Returns the discounted sum of the rewards from each step on, [n, steps]."""
    total, found = torch.zeros(len(rewards)), []
    for reward in (rewards * on).unbind(dim=1)[::-1]:
        total = reward + DISCOUNT * total
        found.append(total)
    return torch.stack(found[::-1], dim=1)


class Policy(Program):
    """The agent in the corridor."""

    name = "policy"
    scores = {"episodes won, %": True}

    def model(self, RNN: RNN) -> nn.Module:
        return Model(RNN, self.hidden_size)

    def draw(self, split: str, n: int, draws: torch.Generator) -> Data:
        """Signs [n], lengths of corridors [n], noise [n, steps, NOISE]."""
        signs = torch.randint(UP, DOWN + 1, (n,), generator=draws)
        cells = torch.randint(self.length // 2, self.length + 1, (n,), generator=draws)
        return signs, cells, torch.randn(n, self.length + 1 + SPARE, NOISE, generator=draws)

    def loss(self, model: Any, data: Data) -> Tensor:
        seen, actions, rewards, on, _ = play(model, data, greedy=False)
        scores, values, _ = model(seen)
        logs = F.log_softmax(scores, dim=-1)
        advantage = returns(rewards, on) - values
        chosen = logs.gather(-1, actions[..., None])[..., 0]
        entropy = -(logs.exp() * logs).sum(dim=-1)
        each = -chosen * advantage.detach() + VALUE_WEIGHT * advantage.square() - ENTROPY_WEIGHT * entropy
        return (each * on).sum() / on.sum()

    def score(self, model: Any, data: Data) -> Scores:
        return {"episodes won, %": 100 * float(play(model, data, greedy=True).won.float().mean())}
