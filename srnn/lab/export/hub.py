"""hub: a folder with the files of a model on the Hugging Face hub, see srnn/lab/hub.py. Nothing is uploaded."""

from pathlib import Path

from srnn.lab.records.record import Record
from srnn.lab.training.model import Model
from srnn.lab.training.run import Run


def write(model: Model, run: Run, folder: Path, *, record: Record, overwrite: bool = False) -> list[str]:
    """Writes config, weights and model card to a folder.

    Raises:
        MissingPackageError: huggingface_hub is not installed.
        SettingError: The folder holds files, and they are not of a model or may not be replaced.
    """
    from srnn.lab import hub  # which needs huggingface_hub

    hub.HubModel(model, run, hub.facts(record)).save_pretrained(folder, overwrite=overwrite)
    return [
        f"{hub.CONFIG}, {hub.WEIGHTS} and {hub.CARD}, the model card",
        f"srnn.lab.hub.HubModel.from_pretrained loads it. Upload it with: hf upload NAME {folder}",
    ]
