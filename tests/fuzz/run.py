"""Fuzzing: random cases for the scans, the layers and every file reader, against plain loops, for as long as you like.

    python tests/fuzz/run.py --seconds 60              all targets, with a new seed, which is printed
    python tests/fuzz/run.py --seed 5 --only readers   the targets with this in their name
    python tests/fuzz/run.py --seed 5 --case scan:17   one batch again, as the report of a failure names it

A batch is `BATCH` cases that Hypothesis draws. Its cases depend on the seed, the target and the number of the batch alone. A
failing case is shrunk and printed. Batches run in a process of their own, so that a crash or a case that hangs is reported too.
"""

import argparse
import faulthandler
import os
import random
import subprocess
import sys
import time
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis

BATCH = 30  # cases
PATIENCE = 60  # seconds that a case may take
Target = tuple[Callable[..., None], dict[str, Any]]
RUNNING = "\x1frunning "  # starts a line from the process of the batches that is not shown


def targets() -> dict[str, Target]:
    """Returns test and strategies of every target, by name."""
    import layers
    import readers
    import scans

    return {**scans.TARGETS, **layers.TARGETS, **readers.TARGETS}


def play(target: Target, seed: int) -> int:
    """Runs a batch and returns the number of cases. A case that takes too long ends the process."""
    test, strategies = target
    count, watched = 0, 0.0

    def case(**drawn: Any) -> None:
        nonlocal count, watched
        if time.monotonic() - watched > PATIENCE / 10:  # not for every case: it starts a thread
            watched = time.monotonic()
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
        count += 1
        test(**drawn)

    phases = (hypothesis.Phase.generate, hypothesis.Phase.shrink)
    settings = hypothesis.settings(
        max_examples=BATCH, database=None, deadline=None, phases=phases, suppress_health_check=list(hypothesis.HealthCheck)
    )
    try:
        hypothesis.seed(seed)(settings(hypothesis.given(**strategies)(case)))()
    finally:
        faulthandler.cancel_dump_traceback_later()
    return count


def work(known: dict[str, Target], seed: int, seconds: float, only: str, single: str) -> int:
    """Runs batches of all targets, in equal shares of the time, and prints the table. Returns the number of failures."""
    alone, _, number = single.partition(":")
    chosen = [name for name in known if (name == alone if single else only in name)]
    assert chosen, f"no target is called {single or only!r}; there are {', '.join(known)}"
    spent, cases, batches, failed = dict.fromkeys(chosen, 0.0), Counter[str](), Counter[str](), list[str]()
    start = time.monotonic()
    while (left := [name for name in chosen if name not in failed]) and (single or time.monotonic() - start < seconds):
        name = min(left, key=lambda name: spent[name])
        batch, before = int(number) if single else batches[name], time.monotonic()
        print(f"{RUNNING}{name}:{batch}", flush=True)
        try:
            cases[name] += play(known[name], zlib.crc32(f"{seed} {name} {batch}".encode()))
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            failed.append(name)
            after = f"{time.monotonic() - start:.0f} s"
            text = "".join(traceback.format_exception(error))
            print(f"{text}\nfuzz: {name} failed after {after}. {again(seed, f'{name}:{batch}')}", flush=True)
        batches[name] += 1
        spent[name] += time.monotonic() - before
        if single:
            break
    for name in chosen:
        print(f"{name:16}{cases[name]:8} cases{spent[name]:8.1f} s{'  FAILED' if name in failed else ''}")
    print(f"fuzz: {sum(cases.values())} cases, seed {seed}, {len(failed)} of {len(chosen)} targets failed", flush=True)
    return len(failed)


def again(seed: int, case: str) -> str:
    """Returns how to run a batch again."""
    return f"Run it again with: make fuzz SEED={seed} CASE={case}"


def main() -> int:
    """Starts the process of the batches, shows what it prints, and reports its end if it did not end by itself."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--only", default="")
    parser.add_argument("--case", default="")
    parser.add_argument("--child", action="store_true")
    given = parser.parse_args()
    if given.child:
        sys.path.insert(0, str(Path(__file__).parents[1]))  # the tests, whose problems and equations are used here
        warnings.simplefilter("ignore")
        return work(targets(), given.seed, given.seconds, given.only, given.case)
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    print(f"fuzz: seed {seed}", flush=True)
    about = ["--seed", str(seed), "--seconds", str(given.seconds), "--only", given.only, "--case", given.case]
    command, last, line = [sys.executable, "-X", "faulthandler", __file__, "--child", *about], "", ""
    waits = os.environ | {"OMP_WAIT_POLICY": "passive"}  # threads that spin while they wait would take most of the time
    with subprocess.Popen(command, env=waits, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith(RUNNING):
                last = line.removeprefix(RUNNING).strip()
            else:
                print(line, end="", flush=True)
    if child.returncode and last and "targets failed" not in line:
        print(f"fuzz: the process ended with {child.returncode} in {last}. {again(seed, last)}")
    return int(child.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
