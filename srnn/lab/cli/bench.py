"""`srnn bench`: speed and memory compared with the layers of torch."""

from pathlib import Path
from typing import Annotated

import typer

from srnn.errors import SettingError


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Take fewer and shorter measurements, for a first look.")] = False,
    threads: Annotated[int, typer.Option(min=1, help="Threads of torch.")] = 2,
    repeats: Annotated[
        int | None,
        typer.Option(min=1, help="Measurements of each number.", show_default="7, with --scale and --step 15, with --quick 3"),
    ] = None,
    networks: Annotated[
        bool, typer.Option("--networks", help="Measure a training step of every network at the sizes of the paper's Table 4.")
    ] = False,
    scale: Annotated[
        bool, typer.Option("--scale", help="Measure a training step on one process and on two, and extrapolate to more.")
    ] = False,
    step: Annotated[
        bool, typer.Option("--step", help="Measure one time step compared with nn.GRUCell, nn.GRU and onnxruntime.")
    ] = False,
    swap: Annotated[
        bool, typer.Option("--swap", help="Train six small programs with nn.GRU, nn.LSTM, SRNN and SRNNStack.")
    ] = False,
    device: Annotated[
        str | None, typer.Option(help="Measure training steps and scans on this device, such as cuda.", show_default=False)
    ] = None,
    parity: Annotated[
        bool, typer.Option("--parity", help="Compare files of srnn export with PyTorch, for small models.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Worker processes of --swap, with one thread each.")] = 1,
    only: Annotated[
        list[str] | None, typer.Option(help="Run this benchmark, or this program of --swap, only. Repeat it for several.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File of the record, by default in results/.", show_default=False)] = None,
    readme: Annotated[Path | None, typer.Option(help="Markdown file whose table is replaced by this one.")] = None,
) -> None:
    """Measure speed and memory compared with nn.RNN, nn.LSTM and nn.GRU.

    Results are compared with the reference before anything is timed. A target that is missed is shown, but is no error.

    [dim]srnn bench --quick
    srnn bench --networks --readme docs/networks.md
    srnn bench --scale --readme docs/scale.md
    srnn bench --step
    srnn bench --parity --readme docs/export.md
    srnn bench --swap --jobs 2 --readme docs/migrate.md
    srnn bench --device cuda
    srnn bench --readme docs/benchmark.md[/dim]
    """
    from srnn.lab import bench as benchmark
    from srnn.lab.bench import device as on_device
    from srnn.lab.bench import parity as comparing
    from srnn.lab.bench import scale as scaling
    from srnn.lab.bench import step as stepping
    from srnn.lab.bench import swap as swapping

    rounds = repeats or (3 if quick else 15)
    if jobs != 1 and not swap:
        raise SettingError(f"--jobs is an option of --swap, got {jobs} without it")
    if device is not None:
        if networks or scale or step or parity or swap or only or readme:
            raise SettingError("--device is a benchmark of its own: leave out --only, --readme and the other benchmarks")
        on_device.main(device, repeats or (3 if quick else 7), quick, threads, out)
    elif parity:
        if networks or scale or step or swap or only or repeats or threads != 2:
            raise SettingError("--parity measures no times: leave out all options but --quick, --out and --readme")
        comparing.main(quick, out, readme)
    elif swap:
        if networks or scale or step or repeats or threads != 2:
            raise SettingError("--swap runs one thread per job: leave out --networks, --scale, --step, --repeats and --threads")
        swapping.main(quick, jobs, out, readme, only or ())
    elif step:
        if networks or scale or only or threads != 2:
            raise SettingError("--step always runs on one thread: leave out --networks, --scale, --only and --threads")
        stepping.main(rounds, quick, out, readme)
    elif scale:
        if networks or only or threads != 2:
            raise SettingError("--scale always runs one thread per process: leave out --networks, --only and --threads")
        scaling.main(rounds, quick, out, readme)
    else:
        benchmark.main(quick, threads, repeats, out, readme, only, networks)
