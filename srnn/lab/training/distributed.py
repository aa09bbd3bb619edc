"""The processes that train one run together, begun by torchrun: what each works on, and what they tell each other.

Every process has the same weights and makes the same updates. Of each batch it takes its own rows, DistributedDataParallel adds
up the gradients, and one process, the first, reads and writes the run's folder. Nothing is pickled on the way.
"""

import inspect
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import torch
from torch import Tensor, distributed, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from srnn.errors import SettingError, SRNNError, TeamError
from srnn.lab.tasks.task import Batch

PATIENCE = timedelta(minutes=30)  # for a process that is slower than the others: the first writes checkpoints
BEGIN, GO_ON, FINISHED = range(3)
# The name of the argument in the torch that is here; the second is the older one.
SYNC_BUFFERS = next(
    name
    for name in ("forward_sync_buffers", "broadcast_buffers")
    if name in inspect.signature(nn.parallel.DistributedDataParallel.__init__).parameters
)


class Team:
    """One process alone: everything is its own, and nobody need be told."""

    rank, size, here = 0, 1, 1  # `here`: how many of them are on this machine
    device: torch.device | None = None  # that it must use; None: as the run says

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def part(self, batch: Batch) -> tuple[Batch, bool]:
        """This process's rows of a batch, and whether there are any; of nothing it gets one row, to go through the motions."""
        return batch, True

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model with gradients that are the mean over all processes."""
        return model

    def add(self, *values: float) -> list[float]:
        """Each value summed over all processes."""
        return list(values)

    def announce(self, code: int, content: bytes = b"") -> None:
        """The first tells the others how it stands, and what they must know to begin."""


class TorchTeam(Team):
    """The processes of torch.distributed."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.rank, self.size = device, distributed.get_rank(), distributed.get_world_size()
        self.here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))

    def part(self, batch: Batch) -> tuple[Batch, bool]:
        rows = slice(self.rank, None, self.size)  # not a block: rows of speech are sorted by length
        here = self.rank < len(batch.input)
        rows = rows if here else slice(0, 1)
        return Batch(batch.input[rows], batch.target[rows], None if batch.lengths is None else batch.lengths[rows]), here

    def wrap(self, model: nn.Module) -> nn.Module:
        if any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules()):
            raise SettingError("a batch norm cannot be shared by processes: each would see its own rows; use one process")
        return nn.parallel.DistributedDataParallel(model, **{SYNC_BUFFERS: False})  # type: ignore[arg-type]  # none changes

    def add(self, *values: float) -> list[float]:
        summed = torch.tensor(values, dtype=torch.float64, device=self.device)
        distributed.all_reduce(summed)
        return summed.tolist()

    def announce(self, code: int, content: bytes = b"") -> None:
        self._broadcast(torch.tensor([code, len(content)]))
        if content:
            self._broadcast(torch.frombuffer(bytearray(content), dtype=torch.uint8))

    def hear(self) -> tuple[int, bytes]:
        """What the first announces."""
        code, length = self._broadcast(torch.zeros(2, dtype=torch.int64)).tolist()
        return code, self._broadcast(torch.zeros(length, dtype=torch.uint8)).numpy().tobytes() if length else b""

    def _broadcast(self, content: Tensor) -> Tensor:
        content = content.to(self.device)
        distributed.broadcast(content, src=0)
        return content.cpu()


ALONE = Team()


@contextmanager
def joined(device: str) -> Iterator[Team]:
    """The team that torchrun has begun, for as long as the work takes; one process alone outside of it."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    on = torch.device(device)
    if on.type == "cuda":
        on = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(on)
    with lost_ones():
        store, rank, size = next(rendezvous("env://", timeout=PATIENCE))
        # torchrun keeps its store when it begins processes anew: without a prefix they would find the addresses of dead ones.
        store = PrefixStore(f"restart {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        kind = "nccl" if on.type == "cuda" else "gloo"
        distributed.init_process_group(kind, store=store, rank=rank, world_size=size, timeout=PATIENCE)
    try:
        yield TorchTeam(on)
    finally:
        distributed.destroy_process_group()


def check(batch_size: int, team: Team) -> None:
    if batch_size < team.size:
        raise SettingError(f"a batch of {batch_size} cannot be shared by {team.size} processes; give a larger --batch-size")


def default_threads() -> int:
    """As many as torch takes by itself. torchrun allows each process one, so there it is one for each core that may be used:
    the same command then is the same run, whether one process makes it or several."""
    if "TORCHELASTIC_RUN_ID" not in os.environ or not hasattr(os, "sched_getaffinity"):
        return torch.get_num_threads()
    cores = set()
    for number in os.sched_getaffinity(0):
        siblings = Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list")
        cores.add(siblings.read_text() if siblings.exists() else str(number))
    return len(cores)


@contextmanager
def lost_ones(about: str = "") -> Iterator[None]:
    """An error of torch.distributed as one of ours: it is raised here when another process has ended."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, SRNNError):
            raise
        words = r"gloo|nccl|connection|processgroup|timed out|\b\w*store\b(?<!restore)"
        if isinstance(error, distributed.DistError) or re.search(words, str(error).lower()):
            said = " ".join(str(error).split())[:200]
            raise TeamError(
                f"another process of this run has ended; {about or 'the same command again goes on'} ({said})"
            ) from None
        raise
