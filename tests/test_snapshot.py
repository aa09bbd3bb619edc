"""Ids, verdicts and table values of the records in results/ stay as they are, whatever is rewritten around them.

tests/snapshot.json holds them. A change that is meant to move a number says so in CHANGELOG and writes the file with

    python tests/test_snapshot.py
"""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from srnn.lab.paper.evidence import Evidence, read
from srnn.lab.paper.exhibits import EXHIBITS
from srnn.lab.paper.plan import PROFILES, Plan
from srnn.lab.paper.verdicts import verdicts
from srnn.lab.training.recipes import from_dict

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
SNAPSHOT = Path(__file__).with_name("snapshot.json")
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?%?")


def numbers(text: str) -> str:
    """Returns the numbers in a text, without its words, which may change."""
    return " ".join(NUMBER.findall(text))


def snapshot() -> dict[str, Any]:
    """Returns verdicts, the numbers of every table and the ids of every planned run and measurement."""
    found = read(RESULTS, Plan(all_networks=True))
    assert not found.faults
    evidence = Evidence.gather(found.found, Plan(all_networks=True))
    return {
        "verdicts": {str(each.claim.number): [each.verdict, each.printed, numbers(each.found)] for each in verdicts(evidence)},
        "tables": {
            table.name: [" | ".join(numbers(cell) for cell in row[1:]) for row in table.rows]
            for exhibit in EXHIBITS.values()
            for table in exhibit.tables(evidence)
        },
        "planned": {
            f"{profile} {exhibit.id}": [
                *(point.run.id for point in exhibit.points(plan)),
                *(measurement.id for measurement in exhibit.measurements(plan)),
            ]
            for profile in PROFILES
            for plan in [Plan(profile, all_networks=True)]
            for exhibit in EXHIBITS.values()
        },
    }


def test_verdicts_table_values_and_planned_ids_are_those_of_the_snapshot() -> None:
    stored = json.loads(SNAPSHOT.read_text())
    current = json.loads(json.dumps(snapshot()))
    for part in stored:
        assert current[part] == stored[part]
    assert current.keys() == stored.keys()


def test_ids_of_all_recorded_runs_can_be_rebuilt_from_their_settings() -> None:
    paths = [*RESULTS.glob("*.jsonl"), *RESULTS.glob("learning/*.jsonl")]
    stored = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    runs = [record for record in stored if record["kind"] == "run"]
    assert len(runs) > 400
    for record in runs:
        run = from_dict(record["run"])
        assert run.id == record["id"]
        assert replace(run, seed=run.seed + 1).id != record["id"]


def test_every_recorded_run_of_the_exhibits_is_still_planned() -> None:
    planned = {part.id for exhibit in EXHIBITS.values() for part in exhibit.parts(Plan(all_networks=True))}
    stored = [json.loads(line) for path in RESULTS.glob("*.jsonl") for line in path.read_text().splitlines()]
    ids = {record["id"] for record in stored if record["kind"] == "run"}
    assert len(ids) > 260
    assert ids - planned == {"pmnist-gru-6b77b977"}  # GRU with 128 units, of no exhibit


if __name__ == "__main__":
    SNAPSHOT.write_text(json.dumps(snapshot(), indent=1) + "\n")
