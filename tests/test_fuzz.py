"""The runner of `make fuzz`: it fails if a case fails, crashes or hangs, and a batch can be repeated."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

HERE = Path(__file__).parent / "fuzz"
sys.path.insert(0, str(HERE))
import run  # noqa: E402


def test_a_failing_target_is_reported_and_its_batch_can_be_repeated(capfd: pytest.CaptureFixture[str]) -> None:
    drawn: list[int] = []

    def wrong(number: int) -> None:
        drawn.append(number)
        assert number < 1000

    known: Any = {"wrong": (wrong, {"number": st.integers()}), "right": (lambda number: None, {"number": st.integers()})}
    assert run.work(known, 5, 0.5, "", "") == 1
    out = capfd.readouterr().out
    assert "number=1000," in out  # shrunk
    case = next(line for line in out.splitlines() if "Run it again" in line).split("CASE=")[1]
    first = list(drawn)
    drawn.clear()
    assert run.work(known, 5, 0.5, "", case) == 1
    assert drawn == first[-len(drawn) :]


BROKEN = """
import sys, time, ctypes
sys.path[:0] = [{folder!r}]
import run
from hypothesis import strategies as st
def crash(n): ctypes.string_at(0)
def hang(n): time.sleep(100)
run.PATIENCE, run.__file__ = 1, __file__
run.targets = lambda: {{"crash": (crash, {{"n": st.integers()}}), "hang": (hang, {{"n": st.integers()}})}}
sys.exit(run.main())
"""


@pytest.mark.parametrize("how", ["crash", "hang"])
def test_a_case_that_crashes_or_hangs_is_named(tmp_path: Path, how: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(BROKEN.format(folder=str(HERE)))
    command = [sys.executable, str(program), "--seed", "3", "--only", how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert f"in {how}:0. Run it again with: make fuzz SEED=3 CASE={how}:0" in done.stdout
    assert f" in {how}\n" in done.stderr  # the traceback
