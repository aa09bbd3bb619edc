"""What is run: every program with every network, three learning rates and five seeds.

The budgets are 5 CPU seconds, and for each program as many updates as nn.GRU makes in about that time with AVX-512. The updates
were set on a slower machine with 14 CPU seconds; no run of that budget was recorded.
The sizes were set with nn.GRU, learning rate 0.003 and seed 0, so that the validation score is between chance level and perfect
at the end; in tagger and policy nn.GRU reaches 100 % all the same. Some sizes of tagger and forecaster were tried after SRNN
or SRNNStack had been seen on them. The form of SRNNStack was chosen with seeds 0, 100 and 200. An earlier form was run with
seeds 1 to 5, so the seeds below are new to this one.
"""

from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from typing import Any

from srnn.lab.bench.swap.acoustic import Acoustic
from srnn.lab.bench.swap.characters import Characters
from srnn.lab.bench.swap.classifier import Classifier
from srnn.lab.bench.swap.forecaster import Forecaster
from srnn.lab.bench.swap.policy import Policy
from srnn.lab.bench.swap.program import Program, Run
from srnn.lab.bench.swap.tagger import Tagger
from srnn.lab.bench.swap.training import NETWORKS

PROGRAMS: dict[str, Program] = {
    program.name: program
    for program in (
        Classifier(updates=700, length=40, held_out=512),
        Tagger(updates=550, length=40, batch_size=16),
        Characters(updates=280, length=100, batch_size=16, hidden_size=128, held_out=128),
        Forecaster(updates=460, length=100, batch_size=16, held_out=64),
        Acoustic(updates=600, length=80, batch_size=16, held_out=128),
        Policy(updates=460, length=25, batch_size=16),
    )
}
RATES = (0.001, 0.003, 0.01)
SEEDS = (6, 7, 8, 9, 10)
QUICK: Any = {"updates": 3, "seconds": 0.05, "hidden_size": 8, "batch_size": 4, "length": 16, "held_out": 8}


def programs(quick: bool = False) -> dict[str, Program]:
    """Returns the programs by name, for a rehearsal with toy sizes."""
    return {name: replace(program, **QUICK) if quick else program for name, program in PROGRAMS.items()}


def runs(quick: bool = False, only: Collection[str] = ()) -> list[Run]:
    """Returns all runs of the named programs, networks next to each other, so that they find the machine in the same state."""
    named = [program for name, program in programs(quick).items() if not only or name in only]
    seeds, rates = (SEEDS[:2], RATES[:2]) if quick else (SEEDS, RATES)
    return [Run(program, net, lr, seed) for seed in seeds for program in named for lr in rates for net in NETWORKS]


def from_settings(settings: Mapping[str, Any]) -> Run:
    """Returns the run that has these `Run.settings`."""
    kind = type(PROGRAMS[settings["program"]])
    program = kind(**{field.name: settings[field.name] for field in fields(kind)})
    return Run(program, settings["network"], settings["lr"], settings["seed"])
