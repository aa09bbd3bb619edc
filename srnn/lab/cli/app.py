"""The commands of `srnn`. Each checks its options here and leaves the work to the module of its name."""

import ast
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

try:
    import typer
    from rich.console import Console
except ModuleNotFoundError as missing:
    raise SystemExit(f"srnn: the command line needs {missing.name}; install it with: pip install 'srnn[lab]'") from None

import srnn
from srnn.errors import Interrupted, SettingError, SRNNError

app = typer.Typer(
    name="srnn",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # a traceback is a bug of ours, and then the plain one says most
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
TASK, NETWORK, HOW, PLACES = "The task", "The network", "How it is trained", "Where things go"
TRUST = "A file.py of yours that the run was begun with: what a folder names is not run unless you name it too."


def main() -> None:
    """The entry point: an error of ours is one line and exit code 1, wrong usage is 2."""
    try:
        app(_words(sys.argv[1:]), prog_name="srnn")
    except SRNNError as error:
        which = os.environ.get("RANK", "0")  # of the processes of torchrun, where the first speaks for all that stop together
        if which == "0" or not isinstance(error, Interrupted):
            said = str(error).removeprefix("srnn: ")  # an error about the network of that name
            print(f"srnn: {said}" if which == "0" else f"srnn (process {which}): {said}", file=sys.stderr)
        sys.exit(error.exit_code if isinstance(error, Interrupted) else 1)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "can't allocate memory" not in str(error):
            raise
        print(
            "srnn: there is not enough memory for these sizes; smaller ones, or a smaller --batch-size, may do", file=sys.stderr
        )
        sys.exit(1)


def _words(given: list[str]) -> list[str]:
    """What was typed; `--ray` without an address is a cluster that is begun here."""
    found = []
    for word, following in zip(given, [*given[1:], "-"], strict=True):
        found += [word, "local"] if word == "--ray" and following.startswith("-") else [word]
    return found


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"srnn {srnn.__version__}")
        raise typer.Exit()


@app.callback()
def srnn_(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Shuffling Recurrent Neural Networks: a drop-in for nn.GRU that trains fast on a CPU.

    Begin with [bold]srnn doctor[/bold] and [bold]srnn demo[/bold].

    [dim]srnn doctor            # what runs here, and why the rest does not
    srnn demo              # networks learn before your eyes
    srnn info              # every network, and how large it is
    srnn train copy        # one run of one task; srnn train --help
    srnn runs              # what was run, and how well it did
    srnn sweep copy --grid lr=1e-3,3e-4   # which settings are best?
    srnn reproduce --list  # tables and figures of the paper
    srnn report            # what holds: one page of all that was run
    srnn bench --quick     # how much faster than nn.GRU?
    SRNN_BACKEND=torch srnn demo     # without the compiled kernel (also: native, reference)[/dim]
    """


@app.command()
def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False) -> None:
    """Say which backends run here, why the others do not, whether each equals the reference, and which data sets are here.

    Ends with exit code 1 when a backend gives other values or gradients than the reference.

    [dim]srnn doctor
    srnn doctor --json | python -m json.tool[/dim]
    """
    from srnn.lab.cli import doctor

    found = doctor.examine()
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        doctor.show(found, Console())
    if not found["healthy"]:
        raise typer.Exit(1)


@app.command()
def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and shorter measurements: a first look, not a result.")] = False,
    threads: Annotated[int, typer.Option(min=1, help="Threads of torch.")] = 2,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Measurements of each number.", show_default="7, --scale and --step 15, --quick 3")
    ] = None,
    networks: Annotated[
        bool, typer.Option("--networks", help="Instead: a step of every network beside nn.GRU's, at the paper's Table 4.")
    ] = False,
    scale: Annotated[
        bool, typer.Option("--scale", help="Instead: a step on one process and on two, and what more of them would take.")
    ] = False,
    step: Annotated[
        bool, typer.Option("--step", help="Instead: one time step, compared with nn.GRUCell, nn.GRU and onnxruntime.")
    ] = False,
    swap: Annotated[
        bool, typer.Option("--swap", help="Instead: train six small programs with nn.GRU, nn.LSTM, SRNN and SRNNStack.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="--swap: worker processes, of one thread each.")] = 1,
    only: Annotated[
        list[str] | None, typer.Option(help="Measure this benchmark, or program of --swap, alone; may be given again.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where the record goes.", show_default="results/bench[-networks|-scale|-step].json, results/swap.jsonl"
        ),
    ] = None,
    readme: Annotated[Path | None, typer.Option(help="A README whose table is to be replaced by this one.")] = None,
) -> None:
    """Measure speed and memory beside nn.RNN, nn.LSTM and nn.GRU, and write a record.

    What SRNN computes is compared with the reference before anything is timed. A floor that is missed is shown, no error.

    [dim]srnn bench --quick
    srnn bench --networks --readme docs/networks.md
    srnn bench --scale --readme docs/scale.md
    srnn bench --step
    srnn bench --swap --jobs 2 --readme docs/migrate.md
    srnn bench --readme README.md[/dim]
    """
    from srnn.lab import bench

    if swap:
        from srnn.lab.bench import swap as swapping

        if networks or scale or step or repeats or threads != 2:
            raise SettingError("--swap runs one thread per job: leave out --networks, --scale, --step, --repeats and --threads")
        raise typer.Exit(swapping.main(quick, jobs, out, readme, only or ()))
    if jobs != 1:
        raise SettingError(f"--jobs is an option of --swap; got {jobs} without it")
    if step:
        from srnn.lab.bench import step as stepping

        if networks or scale or only or threads != 2:
            raise SettingError("--step runs on one thread by itself: leave out --networks, --scale, --only and --threads")
        out = out or stepping.RECORD.with_stem(stepping.RECORD.stem + ("-quick" if quick else ""))
        raise typer.Exit(stepping.main(repeats or (3 if quick else 15), out, readme))
    if scale:
        from srnn.lab.bench import scale as scaling

        if networks or only or threads != 2:
            raise SettingError("--scale measures two processes of one thread: leave out --networks, --only and --threads")
        out = out or scaling.RECORD.with_stem(scaling.RECORD.stem + ("-quick" if quick else ""))
        raise typer.Exit(scaling.main(repeats or (3 if quick else 15), out, readme))
    raise typer.Exit(
        bench.main(quick=quick, threads=threads, repeats=repeats, out=out, readme=readme, only=only, networks=networks)
    )


@app.command()
def info(
    model: Annotated[str | None, typer.Argument(help="A network, or a file.py of yours; all of them when left out.")] = None,
    task: Annotated[str, typer.Option(help="What it is to be trained on.")] = "adding",
    hidden_size: Annotated[int, typer.Option(min=1, help="Units.")] = 128,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Say what a network is, its equation, its settings, and how many parameters it has, stored and free.

    [dim]srnn info
    srnn info eurnn
    srnn info lru --task copy --hidden-size 64[/dim]
    """
    from srnn.lab.cli import info

    found = info.examine(model, task, hidden_size)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        info.show(found, Console())


@app.command()
def train(
    context: typer.Context,
    task: Annotated[
        str | None, typer.Argument(help="copy, adding, pmnist, bigpmnist, randomlabels, speech, text, or a file.py of yours.")
    ] = None,
    model: Annotated[str, typer.Option(help="srnn, gru, ... (srnn info lists them), or a file.py of yours.")] = "srnn",
    recipe: Annotated[str, typer.Option(help="paper, own (of the network's paper) or ours: gives what you do not.")] = "paper",
    resume: Annotated[Path | None, typer.Option(help="A run folder to go on with; only its end may be set anew.")] = None,
    trust: Annotated[list[Path] | None, typer.Option(help=TRUST)] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE: any other setting (srnn info NETWORK); may be given again.")
    ] = None,
    length: Annotated[int | None, typer.Option(help="copy: the delay; adding, text: the steps.", rich_help_panel=TASK)] = None,
    direction: Annotated[str | None, typer.Option(help="speech: predict or echo.", rich_help_panel=TASK)] = None,
    standardise: Annotated[
        bool | None, typer.Option(help="speech: inputs (x + 35) / 13 instead of raw dB.", rich_help_panel=TASK)
    ] = None,
    scale_targets: Annotated[
        bool | None, typer.Option(help="speech: predict 13 y - 35 for an output y.", rich_help_panel=TASK)
    ] = None,
    corpus: Annotated[str | None, typer.Option(help="speech: speech, timit or timit-sample.", rich_help_panel=TASK)] = None,
    file: Annotated[str | None, typer.Option(help="text: a UTF-8 file.", rich_help_panel=TASK)] = None,
    crop: Annotated[int | None, typer.Option(help="randomlabels: side of the crop.", rich_help_panel=TASK)] = None,
    samples: Annotated[int | None, typer.Option(help="randomlabels: how many images.", rich_help_panel=TASK)] = None,
    pixels: Annotated[str | None, typer.Option(help="bigpmnist: raw or wrapped.", rich_help_panel=TASK)] = None,
    hidden_size: Annotated[int | None, typer.Option(help="Units.", rich_help_panel=NETWORK)] = None,
    num_layers: Annotated[int | None, typer.Option(help="Recurrent layers.", rich_help_panel=NETWORK)] = None,
    mlp: Annotated[str | None, typer.Option(help="srnn: widths of f_r, such as 32,32,32.", rich_help_panel=NETWORK)] = None,
    gate: Annotated[
        bool | None, typer.Option(help="srnn: the factor sigmoid(W_s x + b_s) of b.", rich_help_panel=NETWORK)
    ] = None,
    gate_init: Annotated[
        float | None, typer.Option(help="Added to the gate's first bias, such as -2.", rich_help_panel=NETWORK)
    ] = None,
    activation: Annotated[str | None, typer.Option(help="relu, tanh or clip.", rich_help_panel=NETWORK)] = None,
    permutation: Annotated[str | None, typer.Option(help="shift, partial, identity, random.", rich_help_panel=NETWORK)] = None,
    readout: Annotated[
        str | None,
        typer.Option(help="Widths of the read-out's hidden layers, such as 512; none: affine.", rich_help_panel=NETWORK),
    ] = None,
    norm: Annotated[bool | None, typer.Option(help="Layer norm before the read-out.", rich_help_panel=NETWORK)] = None,
    dropout: Annotated[float | None, typer.Option(help="In the read-out.", rich_help_panel=NETWORK)] = None,
    batch_size: Annotated[int | None, typer.Option(help="Sequences in an update.", rich_help_panel=HOW)] = None,
    optimizer: Annotated[str | None, typer.Option(help="rmsprop, adam, adamw or sgd.", rich_help_panel=HOW)] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.", rich_help_panel=HOW)] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Of the optimizer.", rich_help_panel=HOW)] = None,
    clip: Annotated[
        float | None, typer.Option(help="The norm gradients are clipped to; 0: no clipping.", rich_help_panel=HOW)
    ] = None,
    schedule: Annotated[str | None, typer.Option(help="constant, cosine or staircase.", rich_help_panel=HOW)] = None,
    warmup: Annotated[int | None, typer.Option(help="Updates of linear warm-up.", rich_help_panel=HOW)] = None,
    steps: Annotated[int | None, typer.Option(help="End after this many updates.", rich_help_panel=HOW)] = None,
    epochs: Annotated[int | None, typer.Option(help="End after this many passes over the data.", rich_help_panel=HOW)] = None,
    minutes: Annotated[float | None, typer.Option(help="End after this time, if not before.", rich_help_panel=HOW)] = None,
    cpu_minutes: Annotated[
        float | None, typer.Option(help="End after this time of the processor, if not before.", rich_help_panel=HOW)
    ] = None,
    patience: Annotated[
        int | None, typer.Option(help="End after this many evaluations without a better one.", rich_help_panel=HOW)
    ] = None,
    stop_below: Annotated[
        float | None, typer.Option(help="End when the mean loss of 500 updates is below this.", rich_help_panel=HOW)
    ] = None,
    select: Annotated[
        str | None,
        typer.Option(help="loss or metric: by which of them weights validate best and are kept.", rich_help_panel=HOW),
    ] = None,
    eval_every: Annotated[int | None, typer.Option(help="Updates between two evaluations.", rich_help_panel=HOW)] = None,
    seed: Annotated[int | None, typer.Option(help="Of weights and data.", rich_help_panel=HOW)] = None,
    threads: Annotated[
        int | None, typer.Option(help="Of torch; with torchrun shared by the processes of a machine.", rich_help_panel=HOW)
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, ...", rich_help_panel=HOW)] = None,
    data: Annotated[Path | None, typer.Option(help="Where data sets lie, before $SRNN_DATA.", rich_help_panel=PLACES)] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder.", show_default="runs/ID", rich_help_panel=PLACES)] = None,
    results: Annotated[
        Path, typer.Option(help="Where TASK.jsonl collects the records of runs that ended.", rich_help_panel=PLACES)
    ] = Path("runs/records"),
    checkpoint_every: Annotated[float, typer.Option(help="Seconds between checkpoints.", rich_help_panel=PLACES)] = 30.0,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write the curve for TensorBoard too.", rich_help_panel=PLACES)
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.", rich_help_panel=PLACES)] = False,
) -> None:
    """Train a network on a task, with the settings of the paper where none are given.

    Stop it with Ctrl-C at any time; the same command again goes on. A run leaves a folder, and when it is finished a record.

    [dim]srnn train copy --length 500
    srnn train pmnist --recipe ours --seed 1
    srnn train speech --model gru --direction echo --hidden-size 256 --minutes 10
    srnn train ./mytask.py --set length=100
    srnn train --resume runs/copy-srnn-1f0c33a9 --steps 40000[/dim]
    """
    from srnn.lab.cli import train as lab
    from srnn.lab.records.folder import RUNS
    from srnn.lab.tasks import TASKS
    from srnn.lab.training import recipes

    lab.look_in(data)
    recipes.trust(trust or [])
    if not checkpoint_every >= 0:  # nan is not below 0 either
        raise SettingError(f"--checkpoint-every must be a number of seconds; got {checkpoint_every}")
    given = _given(context, setting or [])
    if task is None and resume is None:
        tasks = ", ".join(sorted(TASKS))
        raise typer.BadParameter(f"name one ({tasks}, or a file.py), or a run with --resume", param_hint="TASK")
    if resume is not None:
        for name in ("model", "recipe", "out"):
            if getattr(context.get_parameter_source(name), "name", "DEFAULT") != "DEFAULT":
                raise SettingError(f"a run goes on as it began: --{name} has no place beside --resume")
    run = lab.choose_run(task, model, recipe, given, resume)
    path = resume or out or RUNS / run.id
    lab.train_run(
        run,
        path,
        Console(quiet=quiet),
        into=results,
        checkpoint_every=checkpoint_every,
        tensorboard=tensorboard,
        quiet=quiet,
    )


def _given(context: typer.Context, settings: list[str]) -> dict[str, Any]:
    """The settings of a run that were given: options of the panels above by their names, and those of --set."""
    panels = {option.name: getattr(option, "rich_help_panel", None) for option in context.command.params}
    given = {
        name: value for name, value in context.params.items() if value is not None and panels[name] in (TASK, NETWORK, HOW)
    }
    return _settings_given(settings, given)


def _settings_given(settings: list[str], given: dict[str, Any] | None = None) -> dict[str, Any]:
    """What --set says, beside what is given already."""
    given = given or {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier() or name in ("task", "network", "recipe"):
            raise SettingError(f"--set takes NAME=VALUE, with the name of a setting; got {text!r}")
        if name in given:
            raise SettingError(f"{name} is given twice; once is enough")
        try:
            given[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            given[name] = value  # a word
    for name in {"mlp", "readout"} & given.keys():
        given[name] = _widths(name, str(given[name]))
    return given


def _widths(name: str, text: str) -> tuple[int, ...]:
    if text in ("", "none", "()"):
        return ()
    try:
        return tuple(int(width) for width in text.removeprefix("(").removesuffix(")").rstrip(",").split(","))
    except ValueError:
        raise SettingError(f"--{name} takes widths such as 32,32,32, or none; got {text!r}") from None


@app.command("eval")
def eval_(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    trust: Annotated[list[Path] | None, typer.Option(help=TRUST)] = None,
    split: Annotated[str | None, typer.Option(help="train, val or test.", show_default="the one the task reports")] = None,
    data: Annotated[Path | None, typer.Option(help="Where data sets lie, before $SRNN_DATA.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Score the weights that a run left.

    [dim]srnn eval runs/pmnist-srnn-1f0c33a9
    srnn eval runs/pmnist-srnn-1f0c33a9 --split val[/dim]
    """
    from srnn.lab.cli import train as lab
    from srnn.lab.training import recipes

    lab.look_in(data)
    recipes.trust(trust or [])
    found = lab.evaluate_run(run, split, Console(quiet=as_json))
    if as_json:
        typer.echo(json.dumps(found))


@app.command()
def runs(
    folder: Annotated[Path, typer.Argument(help="A folder of run folders, or of records.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the runs as JSON.")] = False,
    readme: Annotated[Path | None, typer.Option(help="A README whose table of results is to be replaced.")] = None,
) -> None:
    """List the runs: what each is, how far it is, and how well it does. Of records: a line for all seeds of one setting.

    [dim]srnn runs
    srnn runs results
    srnn runs results --readme docs/results.md[/dim]
    """
    from srnn.lab.cli import train as lab

    found = lab.list_runs(folder, Console(quiet=as_json), readme)
    if as_json:
        typer.echo(json.dumps(found, indent=1))


@app.command()
def reproduce(
    exhibits: Annotated[list[str] | None, typer.Argument(help="Exhibits of the paper, or all; --list names them.")] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="Name the exhibits: what they show, how many runs, how many recorded.")
    ] = False,
    estimate: Annotated[
        bool,
        typer.Option("--estimate", help="Say what would be run, and for how long, by three updates of each; run nothing else."),
    ] = False,
    profile: Annotated[
        str, typer.Option(help="cpu: rivals get minutes; full: the authors' lengths for all; or quick.")
    ] = "cpu",
    quick: Annotated[bool, typer.Option("--quick", help="A rehearsal at toy sizes, kept apart from results.")] = False,
    all_networks: Annotated[bool, typer.Option("--all-networks", help="Also networks that the paper did not run.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="This network alone; may be given again.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at once, one thread each.")] = 2,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run on a Ray cluster; without an address, on one that is begun here.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Where data sets lie, before $SRNN_DATA.")] = None,
) -> None:
    """Make the runs of tables and figures of the paper. What is recorded is left; what was stopped goes on.

    Ctrl-C stops it at any time; the same command again continues.

    [dim]srnn reproduce --list
    srnn reproduce copy --quick
    srnn reproduce copy adding --estimate
    srnn reproduce all --jobs 4[/dim]
    """
    from srnn.lab.cli import train as lab
    from srnn.lab.paper import plan as paper
    from srnn.lab.scheduling import reproduce as reproducing

    lab.look_in(data)
    plan, console = paper.Plan(_profile(profile, quick), all_networks), Console()
    if list_:
        reproducing.show(plan, console)
        return
    if not exhibits:
        raise typer.BadParameter(f"name one, or all: {', '.join(paper.EXHIBITS)}", param_hint="EXHIBITS")
    if reproducing.reproduce(exhibits, plan, console, jobs=jobs, ray=ray, only=only or (), estimate_only=estimate):
        raise typer.Exit(1)


def _profile(profile: str, quick: bool) -> str:
    if quick and profile not in ("cpu", "quick"):
        raise SettingError(f"--quick is a profile of its own: leave out --profile {profile}")
    return "quick" if quick else profile


@app.command()
def sweep(
    task: Annotated[str, typer.Argument(help="copy, adding, pmnist, ..., or a file.py of yours.")],
    grid: Annotated[list[str], typer.Option(help="NAME=VALUE,VALUE,...: a setting and its values; may be given again.")],
    model: Annotated[str, typer.Option(help="srnn, gru, ... (srnn info lists them), or a file.py of yours.")] = "srnn",
    recipe: Annotated[str, typer.Option(help="paper, own or ours: gives what you do not.")] = "paper",
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE: a setting of all runs; may be given again.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at once, one thread each.")] = 2,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run on a Ray cluster; without an address, on one that is begun here.")
    ] = None,
    results: Annotated[Path, typer.Option(help="Where TASK.jsonl collects the records.")] = Path("runs/records"),
    data: Annotated[Path | None, typer.Option(help="Where data sets lie, before $SRNN_DATA.")] = None,
) -> None:
    """Train with every combination of some values, several runs at once, and show a table, the best first.

    What is recorded is not made again, what was stopped goes on. Widths are told apart by slashes: --grid mlp=8/32,32

    [dim]srnn sweep copy --grid hidden_size=128,256 --grid lr=1e-3,3e-4 --set steps=2000
    srnn sweep pmnist --grid mlp=32/32,32 --grid seed=1,2,3 --set epochs=5 --jobs 4[/dim]
    """
    from srnn.lab.cli import train as lab
    from srnn.lab.scheduling import sweep as sweeping

    lab.look_in(data)
    fixed = _settings_given(setting or [])
    runs = sweeping.runs_of(task, model, recipe, fixed, grid)
    if sweeping.sweep(runs, Console(), jobs=jobs, ray=ray, into=results):
        raise typer.Exit(1)


@app.command()
def report(
    out: Annotated[Path, typer.Option(help="The folder of the page; its figures and tables lie beside it.")] = Path("report"),
    results: Annotated[Path, typer.Option(help="Where the records lie.")] = Path("results"),
    profile: Annotated[str, typer.Option(help="cpu, full or quick: of which runs.")] = "cpu",
    quick: Annotated[bool, typer.Option("--quick", help="Of a rehearsal: what `srnn reproduce --quick` left.")] = False,
    readme: Annotated[
        Path | None,
        typer.Option(
            help="Make no page, but fill the verdicts of this README, and docs/verdicts.md and docs/figures beside it."
        ),
    ] = None,
) -> None:
    """Make one page of all records: what the paper claims, what was measured, every table and figure.

    The page needs nothing but itself; figures are also written as SVG and PDF, tables as CSV, Markdown and LaTeX.

    [dim]srnn report
    srnn report --out /tmp/page --quick
    srnn report --readme README.md[/dim]
    """
    from srnn.lab import report as page
    from srnn.lab.paper import plan as paper
    from srnn.lab.scheduling import reproduce

    plan, console = paper.Plan(_profile(profile, quick), all_networks=True), Console()
    quick = plan.profile == "quick"
    folder = reproduce.places(plan)[1] if quick else results
    if readme is not None:
        if quick:
            raise SettingError("a rehearsal says nothing about the paper: --readme takes records of experiments")
        page.fill_readme(folder, readme, console, plan)
        return
    lead = "A rehearsal at toy sizes: it shows that everything runs, and says nothing about the paper." if quick else ""
    path = page.make(folder, out, console, plan=plan, lead=lead, is_experiment=not quick)
    console.print(f"report: {path}", markup=False, highlight=False, soft_wrap=True)


@app.command()
def data(
    name: Annotated[
        str | None, typer.Argument(help="mnist, speech, timit, timit-sample or text; all of them when left out.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Where data sets lie, before $SRNN_DATA.")] = None,
) -> None:
    """List the data sets that are here and how to get the others; with a name, check that one, or download it (MNIST).

    [dim]srnn data
    srnn data mnist[/dim]
    """
    from srnn.lab import data as sets
    from srnn.lab.cli import train as lab

    if name is not None:
        sets.fetch(name, data, Console())
        return
    lab.look_in(data)
    sets.show(Console())


@app.command()
def demo(
    minutes: Annotated[float | None, typer.Option(help="At most this long for each of the three.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the weights and of the data.")] = 1234,
    data: Annotated[Path | None, typer.Option(help="Where data sets lie, before $SRNN_DATA.")] = None,
) -> None:
    """Watch an SRNN learn three problems of the paper, in two or three minutes: copying, adding, permuted MNIST.

    MNIST is downloaded when it is not there. Stop it with Ctrl-C; the same command again goes on.

    [dim]srnn demo
    srnn demo --seed 3[/dim]
    """
    from srnn.lab.cli import demo
    from srnn.lab.cli import train as lab

    lab.look_in(data)
    demo.run(Console(), minutes=minutes, seed=seed)
