"""Crashes each command before every file-system operation, and in other ways at every one, and counts what was lost.

    python tests/crashes                        the full product, on all cores
    python tests/crashes --sample 25            so many points of each command, drawn with --seed
    python tests/crashes --only sweep --how "names lost"    commands and kinds of crashes with these words
    python tests/crashes --table docs/faults.md also writes the table there

After a crash the same command must end as if nothing had happened. Crashes are `HOW` in powercut.py. Victims are forked from a
process that has imported everything, started with the shim (shim.c) preloaded.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from powercut import HOW

HERE = Path(__file__).parent


def build(folder: Path) -> Path:
    """Compiles the shim."""
    library = folder / "shim.so"
    command = ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", str(HERE / "shim.c"), "-o", str(library)]
    subprocess.run(command, check=True)
    return library


def examine(scratch: Path, share: int, shares: int, sample: int, seed: int, only: str, how: str) -> None:
    """Tries this process's share of the points, and prints a JSON line for each."""
    import commands  # with torch, which only the processes that fork victims need
    from victims import Laboratory, threads

    here = Laboratory(scratch)
    for number, command in enumerate(commands.COMMANDS):
        if only not in command.name:
            continue
        here.warm(number)
        points = [point for point in here.points(number) if how in point.how]
        if sample and len(points) > sample:
            points = random.Random(seed).sample(points, sample)
        for point in points[share::shares]:
            assert threads() == 1
            start = time.monotonic()
            lost = here.crash(point)
            print(json.dumps([command.name, *point[1:], lost, round(time.monotonic() - start, 2)]), flush=True)


def table(tried: Counter[tuple[str, str]], lost: Counter[str]) -> str:
    """Returns the table of points tried by command and kind of crash."""
    names = list(dict.fromkeys(name for name, _ in tried))
    lines = [["crashed", *HOW, "lost"], ["---", *["--:"] * (len(HOW) + 1)]]
    lines += [[name, *(str(tried[name, how]) for how in HOW), str(lost[name])] for name in names]
    sums = [sum(tried[name, how] for name in names) for how in HOW]
    lines += [["all", *map(str, sums), str(sum(lost.values()))]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    """Starts the processes that fork victims, and collects what they found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--how", default="")
    parser.add_argument("--table", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--share", type=int)
    parser.add_argument("--scratch", type=Path)
    given = parser.parse_args()
    if given.share is not None:
        examine(given.scratch, given.share, given.jobs, given.sample, given.seed, given.only, given.how)
        return 0
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        return collect(Path(name), given)


def collect(scratch: Path, given: argparse.Namespace) -> int:
    """Runs the shares, prints what was lost and the table. Returns the exit code."""
    library = build(scratch)
    alone = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    # Without git and npm: a victim starts no other process.
    environment = {**os.environ, **alone, "LD_PRELOAD": str(library), "PATH": str(scratch), "SRNN_DATA": "", "COLUMNS": "200"}
    shares = []
    for share in range(given.jobs):
        (scratch / str(share)).mkdir()
        command = [sys.executable, str(HERE), *sys.argv[1:], "--jobs", str(given.jobs)]
        command += ["--share", str(share), "--scratch", str(scratch / str(share))]
        shares.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    tried, lost, unreached = Counter[tuple[str, str]](), Counter[str](), 0
    for process in shares:
        assert process.stdout is not None
        for line in process.stdout:
            name, role, number, how, said, _seconds = json.loads(line)
            if said is None:
                unreached += 1
                continue
            tried[name, how] += 1
            if said:
                lost[name] += 1
                print(f"lost: {name}, {role}, operation {number}, {how}: {said}", flush=True)
    print(f"\n{table(tried, lost)}\n\n{unreached} points were not reached")
    failed = [process.wait() for process in shares]
    if given.table and not any(failed):
        from srnn.lab.records import store

        store.replace(given.table, store.filled(given.table, "crashes", table(tried, lost)))
    return 1 if lost or any(failed) or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
