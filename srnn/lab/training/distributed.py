"""The processes that train one run together, started by torchrun: how they share batches, gradients and decisions.

Every process has the same weights and makes the same updates. It takes its own rows of each batch, DistributedDataParallel
averages the gradients, and only the first process reads and writes the run's folder. Nothing is pickled.
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
START, RESUME, FINISHED = range(3)  # what the first process announces
# The name of the argument in the installed torch; the second is the older one.
SYNC_BUFFERS = next(
    name
    for name in ("forward_sync_buffers", "broadcast_buffers")
    if name in inspect.signature(nn.parallel.DistributedDataParallel.__init__).parameters
)


class Team:
    """One process alone."""

    rank, size, here = 0, 1, 1  # `here`: the number of processes on this machine
    device: torch.device | None = None  # that it must use; None: the run's

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def part(self, batch: Batch) -> tuple[Batch, bool]:
        """Return this process's rows of a batch, and True; or, if there are none for it, one row and False."""
        return batch, True

    def wrap(self, model: nn.Module) -> nn.Module:
        """Return the model with gradients that are averaged over all processes."""
        return model

    def add(self, *values: float) -> list[float]:
        """Return each value summed over all processes."""
        return list(values)

    def announce(self, code: int, content: bytes = b"") -> None:
        """Send the others a code, and what they need to start."""


class TorchTeam(Team):
    """The processes of torch.distributed."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.rank, self.size = device, distributed.get_rank(), distributed.get_world_size()
        self.here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))

    def part(self, batch: Batch) -> tuple[Batch, bool]:
        if self.rank >= len(batch.input):
            return batch.rows(slice(1)), False
        return batch.rows(slice(self.rank, None, self.size)), True  # not a block: rows of speech are sorted by length

    def wrap(self, model: nn.Module) -> nn.Module:
        if any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules()):
            raise SettingError("a batch norm cannot be shared by processes: each would see its own rows. Use one process")
        return nn.parallel.DistributedDataParallel(model, **{SYNC_BUFFERS: False})  # type: ignore[arg-type]  # none changes

    def add(self, *values: float) -> list[float]:
        summed = torch.tensor(values, dtype=torch.float64, device=self.device)
        distributed.all_reduce(summed)
        return summed.tolist()

    def announce(self, code: int, content: bytes = b"") -> None:
        self._broadcast(torch.tensor([code, len(content)]))
        if content:
            self._broadcast(torch.frombuffer(bytearray(content), dtype=torch.uint8))

    def receive(self) -> tuple[int, bytes]:
        """Return what the first process announces."""
        code, length = self._broadcast(torch.zeros(2, dtype=torch.int64)).tolist()
        return code, self._broadcast(torch.zeros(length, dtype=torch.uint8)).numpy().tobytes() if length else b""

    def _broadcast(self, content: Tensor) -> Tensor:
        content = content.to(self.device)
        distributed.broadcast(content, src=0)
        return content.cpu()


ALONE = Team()


@contextmanager
def joined(device: str) -> Iterator[Team]:
    """Join the processes that torchrun started. Without torchrun, yield a team of one.

    Raises:
        SettingError: The variables of the environment are not those of torchrun.
    """
    if _number_of_processes() == 1:
        yield ALONE
        return
    on = torch.device(device)
    if on.type == "cuda":
        on = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(on)
    with lost_processes():
        store, rank, size = next(rendezvous("env://", timeout=PATIENCE))
        # torchrun keeps its store when it restarts processes: without a prefix they would find the addresses of dead ones.
        store = PrefixStore(f"restart {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        kind = "nccl" if on.type == "cuda" else "gloo"
        distributed.init_process_group(kind, store=store, rank=rank, world_size=size, timeout=PATIENCE)
    try:
        yield TorchTeam(on)
    finally:
        distributed.destroy_process_group()


def _number_of_processes() -> int:
    """Return WORLD_SIZE, 1 if it is not set, after a look at the other variables of torchrun."""
    advice = "Start the processes with torchrun, or unset WORLD_SIZE"
    found = {}
    for name, least, default in (("WORLD_SIZE", 1, "1"), ("RANK", 0, ""), ("MASTER_PORT", 0, ""), ("LOCAL_WORLD_SIZE", 1, "1")):
        text = os.environ.get(name) or default
        if not (text.isdecimal() and int(text) >= least):
            got = f"{text!r}" if text else "nothing"
            raise SettingError(f"${name} must be a whole number of at least {least}, got {got}. {advice}")
        found[name] = int(text)
        if found["WORLD_SIZE"] == 1:
            return 1
    if found["RANK"] >= found["WORLD_SIZE"] or not os.environ.get("MASTER_ADDR"):
        raise SettingError(f"$RANK must be below $WORLD_SIZE, and $MASTER_ADDR be set. {advice}")
    return found["WORLD_SIZE"]


def check(batch_size: int, team: Team) -> None:
    """Raise a SettingError if a batch has fewer rows than there are processes."""
    if batch_size < team.size:
        raise SettingError(f"a batch of {batch_size} cannot be shared by {team.size} processes. Give a larger --batch-size")


def default_threads() -> int:
    """Return torch's own number of threads. torchrun sets that to 1, so there it is one for each core that may be used.

    The same command is then the same run on one process and on several.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ or not hasattr(os, "sched_getaffinity"):
        return torch.get_num_threads()
    cores = set()
    for number in os.sched_getaffinity(0):
        siblings = Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list")
        cores.add(siblings.read_text() if siblings.exists() else str(number))
    return len(cores)


@contextmanager
def lost_processes(advice: str = "Run the same command to resume") -> Iterator[None]:
    """Turn the errors that torch.distributed raises when another process has ended into a TeamError."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, SRNNError):
            raise
        words = r"gloo|nccl|connection|processgroup|timed out|\b\w*store\b(?<!restore)"
        if isinstance(error, distributed.DistError) or re.search(words, str(error).lower()):
            said = " ".join(str(error).split())[:200]
            raise TeamError(f"another process of this run has ended. {advice} ({said})") from None
        raise
