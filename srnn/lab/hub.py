"""Models for the Hugging Face hub: `save_pretrained`, `from_pretrained` and `push_to_hub` of huggingface_hub.

    HubModel(SRNN(8, 128)).save_pretrained("layer")
    HubModel.of_run(Path("runs/copy-srnn-1f0c33a9")).push_to_hub("you/copy")
    rnn = HubModel.from_pretrained("layer").model           # or the name of a model on the hub

A folder, or a model on the hub, has three files. Nothing is pickled, and no code is downloaded.

    config.json          what the model is: a layer with its settings, or a run with its settings and what its record reports
    model.safetensors    the weights, with a digest
    README.md            the model card, made from config.json
"""

import inspect
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

import srnn
from srnn.errors import MissingError, MissingPackageError, RecordError, SettingError, SettingTypeError, SRNNError
from srnn.lab.records import record as records
from srnn.lab.records import store
from srnn.lab.records.folder import RunFolder, Tensors, load_tensors, save_tensors
from srnn.lab.records.record import Record
from srnn.lab.report.runs import brief, recipe
from srnn.lab.tasks.fitted import Fitted
from srnn.lab.training.loop import load_model
from srnn.lab.training.model import Model
from srnn.lab.training.progress import number
from srnn.lab.training.recipes import from_dict
from srnn.lab.training.run import Run, to_share
from srnn.lab.training.weights import finished_model
from srnn.layer import SRNN
from srnn.stack import SRNNStack

try:
    from huggingface_hub import ModelCard, ModelCardData, PyTorchModelHubMixin, hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError
except ModuleNotFoundError as missing:
    raise MissingPackageError(f"the hub needs {missing.name}. Install it with: pip install 'srnn[hub]'") from None

KIND, FORMAT = "srnn model", 1
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
LAYERS: dict[str, type[SRNN | SRNNStack]] = {"SRNN": SRNN, "SRNNStack": SRNNStack}
ADVICE = "HubModel.save_pretrained writes one"


class HubModel(nn.Module, PyTorchModelHubMixin):
    """A layer, or the model of a run, that can be saved to a folder or pushed to the hub.

    Calling it calls the model.

    Args:
        model: An SRNN, an SRNNStack, or the model of a run.
        run: The settings of the run that the model is of.
        about: What the model card shows besides the settings, as names and values.

    Raises:
        SettingTypeError: The model is none of these, or it is of a run and its settings are missing.
    """

    def __init__(self, model: nn.Module, run: Run | None = None, about: Mapping[str, str] | None = None) -> None:
        super().__init__()
        if type(model) is Model and run is None:
            raise SettingTypeError("the model of a run needs its settings. Use HubModel.of_run with the run folder")
        if type(model) is not Model and (type(model) not in LAYERS.values() or run is not None):
            raise SettingTypeError(f"HubModel takes an SRNN, an SRNNStack or the model of a run, got {type(model).__name__}")
        self.model: Any = model
        self.run, self.about = run, dict(about or {})

    @classmethod
    def of_run(cls, folder: Path | str) -> "HubModel":
        """Return the model of a finished run, with what its record reports.

        Raises:
            MissingError: It is not a run folder.
            RecordError: The run is not finished, or its folder is damaged.
        """
        run, model = finished_model(Path(folder))
        return cls(model, run, facts(records.load(RunFolder(Path(folder)).record)))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model."""
        return self.model(*args, **kwargs)

    def config(self) -> dict[str, Any]:
        """Return the content of config.json."""
        plain = {"kind": KIND, "format": FORMAT, "srnn": srnn.__version__, "about": self.about}
        if self.run is not None:
            return plain | {"model": "run", "settings": to_share(self.run.as_dict()), "calibration": self.model.calibration}
        return plain | {"model": type(self.model).__name__, "settings": layer_settings(self.model)}

    def save_pretrained(self, save_directory: str | Path, *, overwrite: bool = False, **push: Any) -> str | None:
        """Write config.json, model.safetensors and README.md to a folder.

        Args:
            save_directory: A new or empty folder.
            overwrite: Whether the files of another model in the folder may be replaced. Other files are never touched.
            **push: `push_to_hub=True` also uploads the files, and other arguments go to `push_to_hub`. `repo_id` is by default
                the name of the folder.

        Returns:
            The address of the commit on the hub if there is one.

        Raises:
            SettingError: The folder holds files, and they are not of a model or may not be replaced.
            StorageError: A file cannot be written.
        """
        folder = Path(save_directory)
        _check_place(folder, overwrite)
        config = self.config()
        if (folder / CONFIG).exists():
            (folder / CONFIG).unlink()  # a folder without it is no model, so it comes last
        save_tensors(folder / WEIGHTS, dict(self.model.state_dict()), {"kind": KIND, "format": FORMAT})
        store.replace(folder / CARD, str(self.generate_model_card()).encode())
        store.replace(folder / CONFIG, (json.dumps(config, indent=1, allow_nan=False) + "\n").encode())
        given = {name: push[name] for name in push.keys() - {"push_to_hub", "repo_id", "config", "model_card_kwargs"}}
        return self.push_to_hub(push.get("repo_id") or folder.name, **given) if push.get("push_to_hub") else None

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path, **download: Any) -> "HubModel":
        """Load a model from a folder, or from the hub if there is no such folder.

        Args:
            pretrained_model_name_or_path: The folder, or the name of a model on the hub, such as "you/copy".
            **download: Arguments of `huggingface_hub.hf_hub_download`: revision, token, cache_dir, local_files_only and
                force_download.

        Returns:
            The model in evaluation mode.

        Raises:
            MissingError: There is no such folder and no such model.
            RecordError: A file is damaged, of a newer format, or the weights do not fit.
        """
        name = str(pretrained_model_name_or_path)
        if os.path.isdir(name):
            paths = {file: Path(name, file) for file in (CONFIG, WEIGHTS)}
        else:
            paths = {file: _download(name, file, download) for file in (CONFIG, WEIGHTS)}
        return cls(**_loaded(paths[CONFIG], paths[WEIGHTS])).eval()

    def generate_model_card(self, *args: Any, **kwargs: Any) -> ModelCard:
        """Return the model card: what the model is, what its record reports, how to load it."""
        data = ModelCardData(library_name="srnn", tags=["srnn", "recurrent neural network", "model_hub_mixin"])
        return ModelCard(f"---\n{data.to_yaml()}\n---\n\n{card(self.config())}")


def facts(record: Record) -> dict[str, str]:
    """Return what a model card shows of a record."""
    task, network = brief(to_share(record.run))
    found = {"task": task, "network": network, "recipe": recipe(record.run), "seed": str(record.run["seed"])}
    if record.result is not None:
        score = record.result
        found["score"] = f"{score.split} {score.metric} {number(score.value)}, weights of update {score.at}"
    elif record.training is not None:
        found["loss"] = f"{number(record.training.final)}, mean of the last {record.training.window} updates"
    ended = {"chance level": number(record.chance), "parameters": f"{record.parameters:,}", "updates": f"{record.updates:,}"}
    return found | ended | {"run": record.id, "commit": record.commit}


def card(config: Mapping[str, Any]) -> str:
    """Return the text of a model card, in Markdown."""
    is_run = config["model"] == "run"
    title = (
        f"{config['about'].get('network', 'A model')} on {config['about'].get('task', 'a task')}" if is_run else config["model"]
    )
    rows = config["about"] if is_run else {name: json.dumps(value) for name, value in config["settings"].items()}
    rows = {**rows, "srnn": config["srnn"]}
    call = "output = model(batch)  # a srnn.lab.Batch" if is_run else "output, h_n = model(input)"
    if is_run and config["settings"].get("task", {}).get("name") == Fitted.name:
        call = 'answers = model.predict("table.csv")'
    table = "\n".join(f"| {_cell(name)} | {_cell(value)} |" for name, value in rows.items())
    return f"""# {_cell(title)}

{"The trained model of a run: embedding, layer and read-out." if is_run else "A layer that is called like `nn.GRU`."}

| | |
|---|---|
{table}

## How to load it

`pip install 'srnn[hub,lab]'`, and then, with the name of this model or the folder of its files:

```python
from srnn.lab.hub import HubModel

model = HubModel.from_pretrained("NAME").model
{call}
```
"""


def layer_settings(layer: SRNN | SRNNStack) -> dict[str, Any]:
    """Return the arguments that make a layer of the same kind, as plain values."""
    names = inspect.signature(type(layer)).parameters.keys() - {"device", "dtype", "permutation"}
    plain = {name: getattr(layer, name) for name in sorted(names)}
    dtype = str(next(layer.parameters()).dtype).removeprefix("torch.")
    return plain | {"mlp": list(layer.mlp), "permutation": layer._permutation_name, "dtype": dtype}


def make_layer(kind: str, settings: Mapping[str, Any]) -> SRNN | SRNNStack:
    """Return a layer with these settings. A permutation that the settings do not name comes with the weights.

    Raises:
        SettingError: A setting is not allowed, or the dtype has no such name.
        SettingTypeError: A setting is of the wrong type.
        TypeError: A setting is missing, or there is no such setting.
    """
    given = {name: value for name, value in settings.items() if name != "device"}
    dtype = getattr(torch, str(given.pop("dtype", "float32")), None)
    if not isinstance(dtype, torch.dtype):
        raise SettingError(f"dtype must be the name of one of torch's, such as float32, got {settings['dtype']!r}")
    with torch.random.fork_rng(devices=[]):
        if given.get("permutation") == "given":
            like = LAYERS[kind](**given | {"permutation": "random", "device": "meta"})
            given["permutation"] = torch.arange(max(_units(like).values()))
        return LAYERS[kind](**given, dtype=dtype)


def _cell(value: object) -> str:
    return " ".join(str(value).replace("|", "\\|").split())


def _check_place(folder: Path, overwrite: bool) -> None:
    """Raise a SettingError unless the folder is new or empty, or has a model that may be replaced."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise SettingError(f"{folder} is not a folder. Give a new or empty one")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not overwrite:
        raise SettingError(
            f"{folder} is not empty. Give a new folder, or replace the model in it (overwrite=True, --overwrite)"
        )
    try:
        read_config(folder / CONFIG)
    except RecordError as error:
        raise SettingError(f"{folder} has no model that could be replaced: {error}. Give a new or empty folder") from None


def _download(name: str, file: str, how: Mapping[str, Any]) -> Path:
    try:
        return Path(hf_hub_download(name, file, **how))
    except (HfHubHTTPError, OSError, ValueError) as error:  # no such model or file, no connection, no name of a model
        said = " ".join(str(error).split())[:200]
        raise MissingError(f"{name} is not a folder, and the hub has no {file} under this name: {said}") from None


def read_config(path: Path) -> dict[str, Any]:
    """Return the content of config.json.

    Raises:
        RecordError: The file is missing or damaged, not of a model of ours, or of a newer format.
    """
    if not os.path.lexists(path):
        raise MissingError(f"{path.parent} has no {path.name}, so it is not the folder of a model. {ADVICE}")
    try:
        config = json.loads(store.read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} is damaged: {error}. {ADVICE}") from None
    if not isinstance(config, dict) or config.get("kind") != KIND:
        raise RecordError(f"{path} is not of a model of srnn. {ADVICE}")
    if config.get("format") != FORMAT:
        got = f"format {config.get('format')!r}, written by srnn {config.get('srnn')}"
        raise RecordError(f"{path} has {got}, and this version reads format {FORMAT}. Install a newer srnn")
    is_known = config.get("model") in (*LAYERS, "run")
    if not (is_known and isinstance(config.get("settings"), dict) and isinstance(config.get("about"), dict)):
        raise RecordError(f"{path} is damaged: it must have model, settings and about. {ADVICE}")
    return config


def _loaded(config_path: Path, weights_path: Path) -> dict[str, Any]:
    """Return the arguments of the HubModel of these files."""
    config = read_config(config_path)
    tensors, _ = load_tensors(weights_path, advice="Save or download the model again")
    try:
        if config["model"] == "run":
            run = from_dict(config["settings"])
            model = load_model(run, tensors, weights_path, config.get("calibration"))
            return {"model": model, "run": run, "about": config["about"]}
        layer = make_layer(config["model"], config["settings"])
        _load_weights(layer, tensors)
        return {"model": layer, "about": config["about"]}
    except (TypeError, ValueError, RuntimeError, KeyError) as error:
        said = " ".join(str(error).split())
        wrong = said if isinstance(error, SRNNError) else f"{weights_path} does not fit {CONFIG}: {said}"
        raise RecordError(f"{wrong}. Save or download the model again") from None


def _load_weights(layer: SRNN | SRNNStack, tensors: Tensors) -> None:
    for name, units in _units(layer).items():
        if name in tensors and sorted(tensors[name].tolist()) != list(range(units)):
            raise SettingError(f"{name} must hold each of 0 to {units - 1} once")
    layer.load_state_dict(tensors)


def _units(layer: SRNN | SRNNStack) -> dict[str, int]:
    """Return the number of units by the name of each stored permutation."""
    return {name: len(tensor) for name, tensor in layer.state_dict().items() if name.endswith("permutation")}
