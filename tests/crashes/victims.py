"""Forks victims from a process that has imported everything, crashes them, and judges what they leave behind."""

import contextlib
import ctypes
import errno
import gc
import importlib
import multiprocessing
import os
import re
import shutil
import signal
import sys
import time
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import commands
import rich.live
import torch
import torch._dynamo  # seconds, which the first optimizer of every worker would take
from powercut import CUTS, ERRORS, HOW, lose_data, lose_names, read_log

from srnn.lab import cli, report, workers  # noqa: F401
from srnn.lab.scheduling import reproduce, sweep  # noqa: F401

COUNT, KILL, HALF, FAIL, CUT = range(5)  # as in shim.c
AFTER = 0  # the number of a point after the last operation
LIMIT = 60.0  # seconds that a victim may take
Arm = Callable[[str], None]


class Point(NamedTuple):
    """Where and how a command is crashed."""

    command: int
    role: str
    number: int
    how: str


class Laboratory:
    """Starts victims, and judges what they leave behind. It has torch imported, and no thread."""

    def __init__(self, scratch: Path) -> None:
        torch.set_num_threads(1)
        self.scratch, self.shim = scratch, ctypes.CDLL(None)
        self.work, self.log, self.backups = scratch / "work", scratch / "log", scratch / "backups"
        self.templates: dict[int, Path] = {}
        self.references: dict[int, Any] = {}
        commands.shrink(scratch / "mirror")
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: workers of a killed command are waited for, too
        assert threads() == 1

    def warm(self, number: int) -> None:
        """Imports what a command imports when it runs, so that its victims need not."""
        self.fresh(number)
        self.start(commands.COMMANDS[number].argv, self.work, self.tell_modules)
        for name in (self.scratch / "modules").read_text().splitlines():
            if name not in sys.modules:
                with contextlib.suppress(ImportError):
                    importlib.import_module(name)
        gc.freeze()

    @staticmethod
    def tell_modules(role: str) -> None:
        """Marks a process that writes the names of its modules when it ends."""

    def play(self, argv: list[str], folder: Path) -> None:
        """Runs a command that must succeed."""
        code, said = self.start(argv, folder)
        assert code == 0, said

    def start(self, argv: list[str], folder: Path, arm: "Arm | None" = None) -> tuple[int, str]:
        """Runs a command in a forked process; returns its exit code, or minus a signal, and what it printed."""
        printed = self.scratch / "printed"
        if (child := os.fork()) == 0:
            self._become(argv, folder, arm or (lambda role: None), printed)
        return self._wait(child), printed.read_text()

    def _become(self, argv: list[str], folder: Path, arm: Arm, printed: Path) -> None:
        code = 99
        try:
            os.setsid()
            os.chdir(folder)
            file = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(file, 1)
            os.dup2(file, 2)
            sys.argv = ["srnn", *argv]
            fork_workers(arm)
            arm("parent")
            cli.main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        if arm == self.tell_modules:
            (self.scratch / "modules").write_text("\n".join(sys.modules))
        os._exit(code)

    def _wait(self, child: int) -> int:
        """Waits for a process and for those that it left behind; ends them when they take too long."""
        code, deadline = 0, time.monotonic() + LIMIT
        while True:
            try:
                found, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return code
            if found == child:
                code = os.waitstatus_to_exitcode(status)
            if found == 0:
                time.sleep(0.002)
                if time.monotonic() > deadline:
                    os.killpg(child, signal.SIGKILL)
                    deadline = float("inf")
                    code = -signal.SIGALRM

    def template(self, number: int) -> Path:
        """Returns a folder as a command finds it; made once. Foreign files are in it."""
        if number not in self.templates:
            folder = self.scratch / f"template-{number}"
            folder.mkdir()
            for name, content in commands.FOREIGN.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(content)
            commands.COMMANDS[number].prepare(folder, self.play)
            self.templates[number] = folder
        return self.templates[number]

    def fresh(self, number: int) -> None:
        """Makes the folder of the next victim."""
        for folder in (self.work, self.backups):
            shutil.rmtree(folder, ignore_errors=True)
        self.log.unlink(missing_ok=True)
        shutil.copytree(self.template(number), self.work)
        self.backups.mkdir()

    def armed(self, number: int, mode: int, error: int, victim: str) -> Arm:
        """Returns what the processes of a command call before their work, with their role. In a power cut all of them log."""
        places = [str(path).encode() for path in (self.work, self.log, self.backups)]

        def arm(role: str) -> None:
            self.shim.shim_disarm()
            if role == victim or mode == CUT:
                self.shim.shim_arm(*places, ctypes.c_long(number if role == victim else AFTER), mode, error)

        return arm

    def points(self, number: int) -> list[Point]:
        """Runs a command undisturbed, and returns all points at which it can be crashed."""
        found = []
        command = commands.COMMANDS[number]
        for role in command.roles:
            self.fresh(number)
            code, said = self.start(command.argv, self.work, self.armed(0, COUNT, 0, role))
            assert code == 0, said
            log = read_log(self.log)
            last = max((each.number for each in log), default=0)
            writes = {each.number for each in log if each.kind == "write"}
            found += [Point(number, role, k, how) for k in range(1, last + 1) for how in HOW if how != HOW[1] or k in writes]
            if role == "parent":
                found += [Point(number, role, AFTER, how) for how in CUTS]
            self.references[number] = commands.outcome(self.work)
        return found

    def crash(self, point: Point) -> str | None:
        """Crashes a command and starts it again. Returns what was lost, "" for nothing, None if the point was not reached."""
        command = commands.COMMANDS[point.command]
        self.fresh(point.command)
        mode = HALF if point.how == HOW[1] else FAIL if point.how in ERRORS else CUT if point.how in CUTS else KILL
        error = getattr(errno, point.how) if point.how in ERRORS else 0
        code, said = self.start(command.argv, self.work, self.armed(point.number, mode, error, point.role))
        log = read_log(self.log)
        if not any(each.kind == "hit" for each in log) and point.number != AFTER:
            return None
        if point.how in ERRORS and (lost := self.judge_error(point, code, said)):
            return lost
        if point.how in CUTS:
            lose_names(log) if point.how == CUTS[0] else lose_data(log, self.sizes_before(point.command))
        self.wait_an_hour()
        code, again = self.start(command.argv, self.work)
        if code != 0:
            return f"the next attempt ended with code {code}: {again.strip()[-300:]}"
        return self.compare(point.command)

    def sizes_before(self, number: int) -> dict[str, int]:
        """Returns the sizes of the files that were there before the victim, by their paths."""
        template = self.template(number)
        files = (path for path in template.rglob("*") if path.is_file())
        return {str(self.work / path.relative_to(template)): path.stat().st_size for path in files}

    def wait_an_hour(self) -> None:
        """Makes all files older: temporary files of others are removed when they are no longer in use for sure."""
        for path in self.work.rglob(".*"):
            os.utime(path, (path.stat().st_mtime - 7200,) * 2)

    def judge_error(self, point: Point, code: int, said: str) -> str:
        """Returns what is wrong with the way a command reported a failed operation."""
        if "Traceback" in said:
            return f"a traceback: {said.strip().splitlines()[-1][:300]}"
        if code not in (0, 1, 2):
            return f"exit code {code}: {said.strip()[-300:]}"
        if code == 0:  # it could do without, or has tried again
            return self.compare(point.command)
        errors = [line for line in said.splitlines() if line.startswith(("srnn: ", "failed: "))]
        return "" if len(errors) == 1 else f"not one line of error: {said.strip()[-300:]}"

    def compare(self, number: int) -> str:
        """Returns which files differ from those of an undisturbed command."""
        try:
            found = commands.outcome(self.work)
        except Exception as error:
            return f"unreadable: {error}"
        reference = self.references[number]
        differing = sorted(name for name in found.keys() | reference.keys() if found.get(name) != reference.get(name))
        return (
            ""
            if not differing
            else f"differs: {', '.join(re.sub(r'[.][0-9]+[.][0-9a-f]{8}', '.PID.HEX', n) for n in differing)}"
        )


class NoThread:
    """Stands for the thread of a progress bar: a fork must not copy the locks of a thread."""

    def __init__(self, *about: Any) -> None:
        pass

    start = stop = join = lambda self: None


def fork_workers(arm: Arm) -> None:
    """Makes workers forked processes, not new ones, which import torch for seconds, and arms them."""
    serve, started = workers._serve, [0]
    rich.live._RefreshThread = NoThread  # type: ignore[misc, assignment]

    class Counted(workers.Worker):
        def __init__(self, work: Any) -> None:
            started[0] += 1
            super().__init__(work)

    def forked(pipe: Any, work: Any) -> None:
        for file in map(int, os.listdir("/proc/self/fd")):
            if file > 2 and file != pipe.fileno():  # as in a new process: pipes and locks of others are not kept open
                with contextlib.suppress(OSError):
                    os.close(file)
        arm(f"worker {started[0]}")
        serve(pipe, work)

    workers._serve, workers.Worker = forked, Counted  # type: ignore[misc]
    fork = multiprocessing.get_context("fork")
    setattr(workers, "multiprocessing", types.SimpleNamespace(get_context=lambda _: fork))  # noqa: B010


def threads() -> int:
    """Returns the number of threads of this process."""
    return len(os.listdir("/proc/self/task"))
