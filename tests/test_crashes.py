"""Commands that are crashed at every file-system operation: a seeded sample. `make crashes` tries all of them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

CRASHES = Path(__file__).parent / "crashes"
pytestmark = [pytest.mark.faults, pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the shim is for Linux")]

# A program that replaces a file carelessly. The argument says what it forgets.
CARELESS = """
import ctypes, os, sys
work, log, backups, k, mode, forgets = sys.argv[1:]
os.chdir(work)
ctypes.CDLL(None).shim_arm(work.encode(), log.encode(), backups.encode(), ctypes.c_long(int(k)), int(mode), 28)
name = "a" if forgets == "new file" else "new"
file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
os.write(file, b"second")
if forgets != "data":
    os.fsync(file)
os.close(file)
if name == "new":
    os.replace(name, "a")
if forgets == "new folder":
    os.mkdir("sub")
    os.rename("a", "sub/a")
    os.open("sub/b", os.O_WRONLY | os.O_CREAT)
    folder = os.open("sub", os.O_RDONLY)
    os.fsync(folder)
elif forgets != "folder":
    folder = os.open(".", os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
"""


def test_commands_survive_a_crash_at_sampled_operations() -> None:
    command = [sys.executable, str(CRASHES), "--sample", "20", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    total = re.search(r"^\| all \| (.*) \|$", done.stdout, re.MULTILINE)
    assert total is not None
    *tried, lost = map(int, total[1].split(" | "))
    assert sum(tried) >= 8 * 20 * 0.9  # workers may take turns, so that a few points are not reached
    assert lost == 0


@pytest.fixture(scope="module")
def crashes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled shim."""
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    subprocess.run(["gcc", "-shared", "-fPIC", str(CRASHES / "shim.c"), "-o", str(library)], check=True)
    return library


def found_after(shim: Path, folder: Path, k: int, mode: int, forgets: str, cut: str = "") -> tuple[str, str]:
    """Returns the content of a file that the program replaced until it was crashed, and the kinds of its operations."""
    sys.path.insert(0, str(CRASHES))
    try:
        from powercut import lose_data, lose_names, read_log
    finally:
        sys.path.remove(str(CRASHES))
    for name in ("work", "backups"):
        (folder / name).mkdir(parents=True)
    (folder / "work" / "a").write_text("first")
    places = [str(folder / name) for name in ("work", "log", "backups")]
    subprocess.run(
        [sys.executable, "-c", CARELESS, *places, str(k), str(mode), forgets], env={"LD_PRELOAD": str(shim)}, check=False
    )
    log = read_log(folder / "log")
    if cut == "names":
        lose_names(log)
    if cut == "data":
        lose_data(log, {places[0] + "/a": 5})
    return (folder / "work" / "a").read_text(), " ".join(each.kind for each in log)


def test_a_power_cut_loses_names_of_new_folders_that_were_not_synced(crashes: Path, tmp_path: Path) -> None:
    assert found_after(crashes, tmp_path, 0, 0, "new folder", "names")[0] == "first"
    assert not (tmp_path / "work" / "sub").exists()


@pytest.mark.parametrize(
    ("k", "mode", "forgets", "cut", "left"),
    [
        (0, 0, "", "", "second"),
        (4, 1, "", "", "first"),  # killed before the rename
        (2, 2, "new file", "", "sec"),  # half of a write
        (2, 3, "new file", "", ""),  # a write that failed
        (0, 0, "", "names", "second"),
        (0, 0, "folder", "names", "first"),
        (0, 0, "", "data", "second"),
        (0, 0, "data", "data", ""),
    ],
)
def test_crashes_damage_what_was_forgotten(
    crashes: Path, tmp_path: Path, k: int, mode: int, forgets: str, cut: str, left: str
) -> None:
    content, kinds = found_after(crashes, tmp_path, k, mode, forgets, cut)
    assert content == left
    if k == 0 and not forgets:
        assert kinds == "open write fsync rename fsync"
