"""`srnn doctor`: versions, threads, data sets and backends of this machine."""

import json
import os
import platform
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

import srnn
from srnn.lab.cli.options import Json
from srnn.lab.terminal import print_table, say

ABOUT = {
    "reference": "a plain loop over time, the specification",
    "torch": "plain PyTorch operations, on any device",
    "native": "compiled C++ for the CPU",
    "triton": "Triton kernels for a GPU",
}


def doctor(
    selftest: Annotated[
        bool, typer.Option("--selftest", help="Compare every backend with the reference on every device, with every dtype.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check the installation: backends, versions and data sets.

    Each backend is compared with the reference. The exit code is 1 if values or gradients differ.

    [dim]srnn doctor
    srnn doctor --json | python -m json.tool
    srnn doctor --selftest --json > selftest.json[/dim]
    """
    found = examine(selftest)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        show(found, Console())
    if not found["healthy"]:
        raise typer.Exit(1)


def examine(selftest: bool = False) -> dict[str, Any]:
    """Returns all findings as plain values. `healthy` is false if a backend differs from the reference."""
    import torch

    from srnn import kernels
    from srnn.lab import data
    from srnn.lab.measures import backends
    from srnn.lab.networks import scans

    place = backends.CPU if kernels.triton.INTERPRETED else torch.device("cuda")
    found = {name: backends.examine_backend(name, place if name == "triton" else backends.CPU) for name in ABOUT}
    tests = list(backends.selftest()) if selftest else []
    wish, problem = kernels.default_backend(), None
    if wish not in kernels.BACKENDS:
        problem = f"SRNN_BACKEND={wish} names no backend. Choose one of {', '.join(kernels.BACKENDS)}"
    elif wish != "auto" and not found[wish]["available"]:
        problem = f"SRNN_BACKEND={wish} asks for a backend that is not available"
    return {
        "srnn": srnn.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "platform": f"{platform.system()} {platform.machine()}",
        "backends": found,
        "scans_error": scans.load_error(),
        "data": {entry["name"]: {key: entry[key] for key in ("state", "where", "detail")} for entry in data.status()},
        "auto": None if problem else kernels.auto_backend(),
        "devices": [] if problem else [_accelerator(device) for device in backends.devices()[1:]],
        "SRNN_BACKEND": wish,
        "problem": problem,
        "selftest": tests,
        "healthy": problem is None and all(each["equals_reference"] is not False for each in (*found.values(), *tests)),
    }


def _accelerator(device: Any) -> dict[str, Any]:
    """What a device is, the backend that "auto" runs there, and why it is not a compiled one."""
    from srnn import kernels
    from srnn.lab.records import store

    reason = kernels.triton.error(device) if device.type == "cuda" else "compiled kernels are for the CPU and for CUDA"
    return {"device": str(device), **store.device(device), "auto": kernels.auto_backend(device), "reason": reason}


def show(found: dict[str, Any], console: Console) -> None:
    """Prints the findings for a person."""
    for label, value in (
        ("srnn", found["srnn"]),
        ("Python", f"{found['python']}, {found['platform']}"),
        ("torch", found["torch"]),
        ("threads", f"{found['threads']} on {found['cores']} cores"),
        ("CPU", f"{found['cpu_capability']} (the instructions that torch uses)"),
    ):
        console.print(f"[bold]{label:9}[/bold]{value}", highlight=False)
    console.print()
    states = {True: Text("ready", "green"), False: Text("not available", "yellow")}
    rows = [(name, ABOUT[name], states[each["available"]], _verdict(name, each)) for name, each in found["backends"].items()]
    print_table(console, ("backend", "what it is", "state", "compared with the reference"), rows)
    console.print()
    for test in found["selftest"]:
        say(console, _line(test))
    if found["selftest"]:
        console.print()

    for name, backend in found["backends"].items():
        if backend["reason"] is not None:
            console.print(f"[yellow]{name}[/yellow] is not available: ", end="")
            say(console, backend["reason"])
    if found["scans_error"] is not None:
        console.print("The baselines run on plain PyTorch operations: ", end="")
        say(console, found["scans_error"])
    sets = [f"{name} {entry['state']}" for name, entry in found["data"].items()]
    console.print(
        f"Data sets: {', '.join(sets)}. Run [bold]srnn data[/bold] to see where, and how to get the rest.", highlight=False
    )
    if found["problem"] is not None:
        console.print(f"[red]{found['problem']}[/red]", highlight=False)
        return
    wish = "" if found["SRNN_BACKEND"] == "auto" else f" (SRNN_BACKEND={found['SRNN_BACKEND']})"
    console.print(f"The backend on a CPU is [bold]{found['auto']}[/bold]{wish}.", highlight=False)
    for each in found["devices"]:
        why = f": {each['reason']}" if each["reason"] is not None and not wish else wish
        say(console, f"The backend on {each['device']} ({each['name']}) is {each['auto']}{why}.")


def _line(test: dict[str, Any]) -> str:
    """What the self-test found for a backend on a device, in one line."""
    if test["reason"] is not None:
        found = f"not available. {test['reason']}"
    elif test["error"] is not None:
        found = f"fails: {test['error']}"
    else:
        worst = ", ".join(f"{dtype} {difference:.0e}" for dtype, difference in test["differences"].items())
        found = f"{'equals' if test['equals_reference'] else 'DIFFERS FROM'} the reference up to {worst}"
    return f"{test['backend']} on {test['device']}: {found}"


def _verdict(name: str, backend: dict[str, Any]) -> Text:
    if name == "reference":
        return Text("is the reference")
    if backend["equals_reference"] is None:
        return Text("-")
    if backend["error"] is not None:
        return Text(f"fails: {backend['error']}", "red")
    worst = f"values and gradients differ by {backend['difference']:.0e} at most"
    return Text(f"equal ({worst})") if backend["equals_reference"] else Text(f"NOT EQUAL ({worst})", "red")
