"""What must not be in the sources, and what files from others must not be able to do."""

import ast
import hashlib
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from srnn.errors import DataError, SRNNError
from srnn.lab import data, report
from srnn.lab.data import mnist
from srnn.lab.paper.plan import EXHIBITS, Plan
from srnn.lab.records import store
from srnn.lab.training.loop import train
from srnn.lab.training.recipes import from_dict, make_run, trust

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "srnn").rglob("*.py"))
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}
# The only exception: a Python file that the user names on the command line is executed.
ALLOWED = {("recipes.py", "exec"), ("recipes.py", "compile")}


def name_of(call: ast.expr) -> str:
    if isinstance(call, ast.Attribute):
        return f"{name_of(call.value)}.{call.attr}"
    return call.id if isinstance(call, ast.Name) else ""


def forbidden(source: str, file: str = "x.py") -> list[str]:
    """Returns the forbidden calls and imports of a source."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
            found += [f"import {name}" for name in names if name.split(".")[0] in MODULES]
        if isinstance(node, ast.Call):
            name, options = name_of(node.func), {each.arg: each.value for each in node.keywords}
            shell = options.get("shell")
            if name in ("eval", "exec", "compile", "__import__", "os.system", "os.popen") and (file, name) not in ALLOWED:
                found.append(name)
            if name.endswith(("extractall", ".extract")) or name in ("yaml.load", "numpy.load", "np.load", "torch.hub.load"):
                found.append(name)
            if name == "torch.load" and not getattr(options.get("weights_only"), "value", False):
                found.append(name)
            if shell is not None and getattr(shell, "value", True) is not False:
                found.append(f"{name} with a shell")
            if name.startswith("subprocess.") and node.args and isinstance(node.args[0], ast.JoinedStr | ast.Constant):
                found.append(f"{name} of a text")
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_forbidden_is_in_the_sources(path: Path) -> None:
    assert forbidden(path.read_text(encoding="utf-8"), path.name) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from dill import loads",
        "eval(text)",
        "exec(text)",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "subprocess.run(words, shell=True)",
        "subprocess.run(f'rm {name}')",
        "archive.extractall(folder)",
        "os.system('x')",
        "numpy.load(path)",
    ],
)
def test_forbidden_calls_are_found(source: str) -> None:
    assert forbidden(source)
    assert not forbidden("torch.load(path, weights_only=True); ast.literal_eval(x); subprocess.run(['git', name])")


HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


def test_the_report_escapes_what_comes_from_records(tmp_path: Path) -> None:
    point = next(iter(EXHIBITS["copy"].points(Plan())))
    real = train(make_run("copy", "srnn", length=5, steps=3), tmp_path / "run").to_json()
    record = real | {"id": point.run.id, "ended_by": HOSTILE, "machine": {"cpu": HOSTILE, "cores": 2}}
    record["commit"] = {"id": HOSTILE, "dirty": False}
    record["run"] = record["run"] | {"optimizer": HOSTILE, "recipe": HOSTILE}
    lost = store.signed({"kind": "run", "id": HOSTILE})
    lines = [json.dumps(store.signed(record)), json.dumps(lost), HOSTILE]
    (tmp_path / "copy.jsonl").write_text("\n".join(lines) + "\n")
    text = report.make(tmp_path, tmp_path / "out", Console(file=io.StringIO()), plan=Plan()).read_text(encoding="utf-8")
    assert "<script>" not in text
    assert "<img" not in text
    assert "&lt;script&gt;" in text  # it is shown, and not run


def test_a_record_cannot_bring_code_with_it(tmp_path: Path) -> None:
    """A Python file that a record names is executed only if the user names it too and it has not changed."""
    mark = tmp_path / "ran"
    program = tmp_path / "evil.py"
    program.write_text(f"open({str(mark)!r}, 'w')")
    plain = make_run("copy", "srnn").as_dict()
    plain["task"] = {"name": "evil", "path": str(program), "sha256": hashlib.sha256(program.read_bytes()).hexdigest()}
    with pytest.raises(SRNNError, match=r"the run uses the Python file .*evil\.py. If you trust it, add --trust .*evil\.py"):
        from_dict(plain)
    trust([program])
    with pytest.raises(SRNNError, match="has changed since the run was started"):
        from_dict(plain | {"task": plain["task"] | {"sha256": "0" * 64}})
    assert not mark.exists()


def test_a_run_folder_from_somebody_else_executes_nothing(tmp_path: Path) -> None:
    mark, program = tmp_path / "ran", tmp_path / "evil.py"
    program.write_text((ROOT / "examples" / "parity.py").read_text() + f"\nopen({str(mark)!r}, 'w').close()\n")
    train(make_run(str(program), "srnn", steps=1), tmp_path / "run")
    mark.unlink()
    for words in (["eval", "run"], ["train", "--resume", "run", "--steps", "2"]):
        command = [sys.executable, "-m", "srnn", *words]
        refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert refused.returncode == 1
        assert refused.stderr.count("\n") == 1
        assert "If you trust it, add --trust" in refused.stderr
        assert not mark.exists()
        trusted = subprocess.run([*command, "--trust", "evil.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert trusted.returncode == 0, trusted.stderr
        mark.unlink()


@pytest.mark.parametrize("name", ["../../evil", "/etc/passwd", "evil\0", "a/../../b", ""])
def test_hostile_names_in_a_manifest_stay_inside_its_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "manifest.tsv").write_text(f"utterance\tsplit\n{name}\ttrain\n")
    with pytest.raises(DataError):
        data.corpus.utterances(tmp_path / "corpus")


def test_members_of_an_archive_are_taken_by_name_and_never_unpacked(tmp_path: Path) -> None:
    archive = tmp_path / "package.tgz"
    with tarfile.open(archive, "w:gz") as file:
        for name in ("package/data/../../evil", "/evil", "package/data/link"):
            member: Any = tarfile.TarInfo(name)
            member.size = 4
            file.addfile(member, io.BytesIO(b"evil"))
    with tarfile.open(archive) as file, pytest.raises(KeyError):
        mnist._member(file, next(iter(mnist.FILES)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["package.tgz"]
