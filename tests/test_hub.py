"""Models on the hub: folders give the model again, a server gets the files, and every mistake is one line."""

import base64
import json
import os
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch

import srnn
from srnn import SRNN, SRNNStack
from srnn.errors import MissingError, RecordError, SettingError, SettingTypeError
from srnn.lab import cli, load
from srnn.lab.data import table as tables
from srnn.lab.data.fitting import Question
from srnn.lab.export import export
from srnn.lab.records.folder import load_tensors, save_tensors
from srnn.lab.training.fit import make_fit
from srnn.lab.training.loop import train
from srnn.lab.training.progress import number
from srnn.lab.training.recipes import make_run

pytest.importorskip("huggingface_hub")
from srnn.lab import hub
from srnn.lab.hub import HubModel

C, H = 3, 5
LAYERS: dict[str, Callable[[], Any]] = {
    "layers": lambda: SRNN(C, H, 2, bidirectional=True, activation="tanh", gate=False, bias=False),
    "random": lambda: SRNN(C, H, permutation="random", mlp=(), batch_first=True, dtype=torch.float64),
    "given": lambda: SRNN(C, H, permutation=torch.tensor([2, 0, 1, 4, 3]), gate_init=-2.0),
    "stack": lambda: SRNNStack(C, H, 3, dropout=0.5, width=7, permutation="random"),
    "given for a stack": lambda: SRNNStack(C, H, permutation=torch.tensor([2, 0, 1])),
}
ONE_LINE = r"^[^\n]+$"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    folder = tmp_path_factory.mktemp("hub") / "trained"
    train(make_run("adding", "srnnstack", length=8, hidden_size=6, batch_size=4, steps=3), folder)
    return folder


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_comes_back_from_a_folder(name: str, tmp_path: Path) -> None:
    layer = LAYERS[name]()
    HubModel(layer).save_pretrained(tmp_path / "layer")
    assert sorted(os.listdir(tmp_path / "layer")) == ["README.md", "config.json", "model.safetensors"]
    before = torch.get_rng_state()
    loaded = HubModel.from_pretrained(tmp_path / "layer")
    assert torch.equal(torch.get_rng_state(), before)
    assert type(loaded.model) is type(layer)
    assert not loaded.model.training
    assert repr(loaded.model) == repr(layer)
    x = torch.randn(4, 2, C, dtype=layer._weight.dtype)
    for found, expected in zip(loaded(x), layer.eval()(x), strict=True):
        assert torch.equal(found, expected)


def test_a_run_comes_back_from_a_folder_with_its_record(trained: Path, tmp_path: Path) -> None:
    model = HubModel.of_run(trained)
    model.save_pretrained(tmp_path / "first")
    loaded = HubModel.from_pretrained(tmp_path / "first")
    assert loaded.run == model.run
    assert model.run is not None
    batch = model.run.task.batch(0, 3, 0)
    assert torch.equal(loaded(batch), model(batch))
    loaded.save_pretrained(tmp_path / "second")  # what the record reports is not lost on the way
    for name in ("README.md", "config.json"):
        assert (tmp_path / "second" / name).read_bytes() == (tmp_path / "first" / name).read_bytes()


def test_a_fitted_model_comes_back_with_its_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    x = torch.randn(30, 5, generator=torch.Generator().manual_seed(1))
    columns = {f"x{k}": x[:, k].tolist() for k in range(5)} | {"y": x.square().sum(1).tolist()}
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    Path("table.csv").write_text("\n".join(lines))
    table = tables.read(tmp_path / "table.csv")
    for folder, start in (("earlier", {}), ("run", {"init_from": "earlier"})):
        given: dict[str, Any] = {"file": str(tmp_path / "table.csv"), "hidden_size": 4, "mlp": (), "steps": 1, **start}
        train(make_fit(table, Question(target="y"), **given).run, Path(folder))
    HubModel.of_run("run").save_pretrained("model")
    assert Path("run", "run.json").read_text().count(str(tmp_path)) == 2  # and in nothing that leaves this machine
    for format in ("onnx", "pt2", "safetensors"):
        export(Path("run"), format, Path("model", format))
    for path in Path("model").iterdir():
        parts = [zipfile.ZipFile(path).read(name) for name in zipfile.ZipFile(path).namelist()] if path.name == "pt2" else []
        for content in (path.read_bytes(), *parts):
            assert str(tmp_path).encode() not in content, path
    code = re.findall(r"```python\n(.*?)```", Path("model", "README.md").read_text(), re.DOTALL)[0]
    found: dict[str, Any] = {}
    exec(code.replace("NAME", "model"), found)
    assert found["answers"] == load("run").predict("table.csv")
    assert "low" in found["answers"][0]


def test_srnn_export_writes_the_folder_of_a_run(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(*more: str) -> tuple[Any, str, str]:
        monkeypatch.setattr(sys, "argv", ["srnn", "export", str(trained), "--format", "hub", *more])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code, *capsys.readouterr()

    monkeypatch.chdir(tmp_path)
    code, out, err = call()  # the folder has the name of the run
    size = sum(path.stat().st_size for path in Path("trained-hub").iterdir())
    assert (code, err, out.splitlines()[0]) == (0, "", f"wrote trained-hub, {size:,} bytes")
    assert "HubModel.from_pretrained loads it. Upload it with: hf upload NAME trained-hub" in out
    HubModel.of_run(trained).save_pretrained("expected")
    for name in ("README.md", "config.json"):
        assert Path("trained-hub", name).read_bytes() == Path("expected", name).read_bytes()
    ours, theirs = (load_tensors(Path(name, "model.safetensors"))[0] for name in ("trained-hub", "expected"))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert call("--out", "trained-hub")[::2] == (2, "srnn: trained-hub is not empty. Give a new folder, or replace the model "
                                                    "in it (overwrite=True, --overwrite)\n")  # fmt: skip
    assert call("--out", "trained-hub", "--overwrite")[0] == 0


def test_the_card_is_made_from_the_record(trained: Path, tmp_path: Path) -> None:
    record = json.loads((trained / "record.json").read_text())
    text = str(HubModel.of_run(trained).generate_model_card())
    assert text.startswith("---\nlibrary_name: srnn\n")
    for line in (
        "# srnnstack hidden_size 6 on adding length 8",
        "| recipe | paper, but batch_size 4, steps 3 |",
        "| updates | 3 |",
        f"| parameters | {record['parameters']:,} |",
        f"| run | {record['id']} |",
        f"| srnn | {srnn.__version__} |",
    ):
        assert line in text.splitlines()
    assert re.search(rf"\| loss \| {re.escape(number(record['training']['final']))}, mean of the last 1 updates \|", text)
    assert f"| commit | {record['commit']['id'][:10]}" in text
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    HubModel.of_run(trained).save_pretrained(tmp_path / "model")
    given = {"batch": make_run("adding", "srnnstack", length=8).task.batch(0, 3, 0)}
    exec(code.replace("NAME", str(tmp_path / "model")), given)
    assert given["output"].shape == (3, 1)  # type: ignore[attr-defined]


def test_text_of_a_record_cannot_leave_its_cell() -> None:
    config = HubModel(SRNN(C, H)).config() | {"model": "run", "about": {"task": "a | b\n\n# c"}}
    assert "| task | a \\| b # c |" in hub.card(config).splitlines()


def test_a_folder_is_replaced_only_if_asked_and_only_if_it_is_a_model(tmp_path: Path) -> None:
    model, folder = HubModel(SRNN(C, H)), tmp_path / "model"
    model.save_pretrained(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(SettingError, match=r"model is not empty\. Give a new folder, or replace the model in it"):
        HubModel(SRNN(C, H + 1)).save_pretrained(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    HubModel(SRNN(C, H + 1)).save_pretrained(folder, overwrite=True)
    assert HubModel.from_pretrained(folder).model.hidden_size == H + 1
    others: dict[str, bytes] = {"config.json": b'{"model_type": "bert"}', "README.md": b"mine"}
    for name, content in others.items():
        other = tmp_path / f"with {name}"
        other.mkdir()
        (other / name).write_bytes(content)
        with pytest.raises(SettingError, match="has no model that could be replaced"):
            model.save_pretrained(other, overwrite=True)
        assert {path.name: path.read_bytes() for path in other.iterdir()} == {name: content}
    (tmp_path / "file").write_text("mine")
    with pytest.raises(SettingError, match="file is not a folder"):
        model.save_pretrained(tmp_path / "file", overwrite=True)


def change_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    tensors, state = load_tensors(folder / "model.safetensors")
    change(tensors)
    save_tensors(folder / "model.safetensors", tensors, state)


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")


MISTAKES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no config": (lambda folder: (folder / "config.json").unlink(), r"has no config\.json, so it is not the folder of a model"),
    "no JSON": (lambda folder: (folder / "config.json").write_text("{"), r"config\.json is damaged: Expecting property name"),
    "a list": (lambda folder: (folder / "config.json").write_text("[]"), r"config\.json is not of a model of srnn"),
    "nested": (lambda folder: (folder / "config.json").write_text("[" * 10**5), r"config\.json is damaged"),
    "other program": (lambda folder: change_config(folder, kind="bert"), r"config\.json is not of a model of srnn"),
    "newer": (
        lambda folder: change_config(folder, format=2, srnn="9.0"),
        r"has format 2, written by srnn 9\.0, and this version reads format 1\. Install a newer srnn",
    ),
    "no settings": (lambda folder: change_config(folder, settings=None), "is damaged: it must have model, settings and about"),
    "unknown model": (lambda folder: change_config(folder, model=["SRNN"]), "is damaged: it must have model, settings"),
    "unknown setting": (lambda folder: change_config(folder, settings={"mood": 1}), r"does not fit config\.json: .*'mood'"),
    "wrong setting": (
        lambda folder: change_config(folder, settings={"input_size": C, "hidden_size": -1}),
        "hidden_size must be .*, got -1",
    ),
    "wrong dtype": (
        lambda folder: change_config(folder, settings={"input_size": C, "hidden_size": H, "dtype": "save"}),
        "dtype must be the name of one of torch's, such as float32, got 'save'",
    ),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), r"model\.safetensors cannot be read: No such file"),
    "pickled weights": (pickled, r"model\.safetensors cannot be read: No such file"),
    "cut weights": (
        lambda folder: (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-9]),
        r"model\.safetensors is damaged \(.*\)\. Save or download the model again",
    ),
    "other sizes": (
        lambda folder: change_config(folder, settings={"input_size": C, "hidden_size": H + 1, "permutation": "random"}),
        "permutation must hold each of 0 to 5 once",
    ),
    "missing tensor": (
        lambda folder: change_weights(folder, lambda tensors: tensors.pop("b.0.linear.bias")),
        r'does not fit config\.json: .*Missing key\(s\) in state_dict: "b.0.linear.bias"',
    ),
    "no permutation": (
        lambda folder: change_weights(folder, lambda tensors: tensors["permutation"].zero_()),
        "permutation must hold each of 0 to 4 once",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_damaged_folder_is_one_line_of_error(mistake: str, tmp_path: Path) -> None:
    damage, said = MISTAKES[mistake]
    HubModel(SRNN(C, H, permutation="random")).save_pretrained(tmp_path / "model")
    damage(tmp_path / "model")
    with pytest.raises(RecordError, match=said) as caught:
        HubModel.from_pretrained(tmp_path / "model")
    assert re.match(ONE_LINE, str(caught.value))


def test_weights_that_do_not_fit_a_run_are_one_line_of_error(trained: Path, tmp_path: Path) -> None:
    HubModel.of_run(trained).save_pretrained(tmp_path / "model")
    change_weights(tmp_path / "model", lambda tensors: tensors.pop("rnn.encode.weight"))
    with pytest.raises(RecordError, match=r"does not fit the run's network: 'rnn\.encode\.weight'") as caught:
        HubModel.from_pretrained(tmp_path / "model")
    assert re.match(ONE_LINE, str(caught.value))


def test_other_models_are_refused(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingTypeError, match="HubModel takes an SRNN, an SRNNStack or the model of a run, got GRU"):
        HubModel(torch.nn.GRU(C, H))
    with pytest.raises(SettingTypeError, match=r"the model of a run needs its settings\. Use HubModel\.of_run"):
        HubModel(HubModel.of_run(trained).model)
    with pytest.raises(MissingError, match="is not a run folder"):
        HubModel.of_run(tmp_path)


def test_without_huggingface_hub_one_line_says_what_to_install(trained: Path, tmp_path: Path) -> None:
    program = "import sys; sys.modules['huggingface_hub'] = None; from srnn.lab.cli import main; main()"
    command = [sys.executable, "-c", program, "export", str(trained), "--format", "hub", "--out", str(tmp_path / "model")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "srnn: the hub needs huggingface_hub. Install it with: pip install 'srnn[hub]'\n"
    assert not (tmp_path / "model").exists()


class Hub(BaseHTTPRequestHandler):
    """The few addresses of the hub that huggingface_hub calls to upload small files and to download them."""

    files: dict[str, bytes] = {}
    commits: list[dict[str, Any]] = []
    tokens: set[str | None] = set()
    commit = "0123456789abcdef0123456789abcdef01234567"

    def answer(self, content: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(content))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def do_POST(self) -> None:
        self.tokens.add(self.headers["Authorization"])
        content = self.rfile.read(int(self.headers["Content-Length"]))
        address = f"http://{self.headers['Host']}"
        if self.path == "/api/repos/create":
            name = json.loads(content)["name"]
            plain: dict[str, Any] = {"url": f"{address}/me/{name}", "id": f"me/{name}", "name": f"me/{name}"}
        elif self.path == "/api/validate-yaml":
            plain = {"errors": [], "warnings": []}
        elif self.path == "/api/models/me/copy/preupload/main":
            paths = [file["path"] for file in json.loads(content)["files"]]
            plain = {"files": [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in paths]}
        elif self.path == "/api/models/me/copy/commit/main":
            for line in map(json.loads, content.splitlines()):
                if line["key"] == "header":
                    self.commits.append(line["value"])
                else:
                    self.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            plain = {"commitUrl": f"{address}/me/copy/commit/{self.commit}", "commitOid": self.commit, "success": True}
        else:
            return self.answer(b"{}", 404)
        return self.answer(json.dumps(plain).encode(), Content_Type="application/json")

    def do_GET(self) -> None:
        start = "/me/copy/resolve/main/"
        content = self.files.get(self.path.removeprefix(start)) if self.path.startswith(start) else None
        if content is None:
            return self.answer(b"", 404, X_Error_Code="RepoNotFound", X_Error_Message="Repository not found")
        etag = f'"{hash(content):x}"'
        return self.answer(content, ETag=etag, X_Repo_Commit=self.commit, Content_Type="application/octet-stream")

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    """The address of a hub that runs on this machine."""
    Hub.files, Hub.commits, Hub.tokens = {}, [], set()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


PROGRAM = """
import sys
from pathlib import Path
import torch
from srnn.errors import MissingError
from srnn.lab.hub import HubModel

pushed = HubModel.of_run(Path(sys.argv[1]))
print(pushed.push_to_hub("copy", commit_message="why"))
loaded = HubModel.from_pretrained("me/copy")
batch = pushed.run.task.batch(0, 3, 0)
print(torch.equal(loaded(batch), pushed(batch)))
try:
    HubModel.from_pretrained("me/nothing")
except MissingError as error:
    print(error)
"""


def test_a_model_is_pushed_to_a_hub_and_loaded_from_it(trained: Path, address: str, tmp_path: Path) -> None:
    """With a server of its own, in a process of its own, because huggingface_hub reads the address when it is imported."""
    variables = {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path), "HF_TOKEN": "hf_test", "HF_HUB_DISABLE_XET": "1"}
    command = [sys.executable, "-c", PROGRAM, str(trained)]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    commit, is_equal, missing = done.stdout.splitlines()
    assert commit == f"{address}/me/copy/commit/{Hub.commit}"
    assert is_equal == "True"
    assert missing.startswith("me/nothing is not a folder, and the hub has no config.json under this name: ")
    assert sorted(Hub.files) == ["README.md", "config.json", "model.safetensors"]
    assert [each["summary"] for each in Hub.commits] == ["why"]
    assert Hub.tokens == {"Bearer hf_test"}
    HubModel.of_run(trained).save_pretrained(tmp_path / "folder")
    assert Hub.files["README.md"] == (tmp_path / "folder" / "README.md").read_bytes()
