"""``seekset embed``."""

from __future__ import annotations

from errno import ENOTDIR
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seekset.cli.options import PATH, common_options
from seekset.cli.terminal import say, show_data, show_json

if TYPE_CHECKING:
    from seekset.inference.run import Summary

_MANIFEST = "manifest.json"


def _arguments(ctx: click.Context, param: click.Parameter, words: tuple[str, ...]) -> dict[str, str]:  # noqa: ARG001 (click's signature)
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise click.BadParameter(f"expected KEY=VALUE, found {word!r}")
        found[name] = value
    return found


@click.command(name="embed")
@click.argument("files", nargs=-1, type=PATH)
@click.option("-o", "--output", required=True, type=PATH, help="The folder that everything goes into.")
@click.option(
    "--model",
    default="kmer",
    show_default=True,
    help="kmer, a Hugging Face model (a folder or a name), or MODULE:NAME of an encoder of your own.",
)
@click.option(
    "--model-arg",
    "model_args",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_arguments,
    help="For the encoder, such as k=3; as often as needed.",
)
@click.option("--dtype", type=click.Choice(["fp32", "bf16", "fp16"]), help="What the model computes in.")
@click.option("--layer", type=int, help="Which hidden layer to take; the last one unless given.")
@click.option("--per-token", is_flag=True, help="A vector for each residue, not for each sequence.")
@click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    default=16384,
    show_default=True,
    help="Most tokens of a batch; more if one sequence has more.",
)
@click.option(
    "--max-length", type=click.IntRange(min=1), help="Most residues of a sequence; the encoder's limit unless given."
)
@click.option(
    "--overflow",
    type=click.Choice(["truncate", "error"]),
    default="truncate",
    show_default=True,
    help="What becomes of longer ones.",
)
@click.option("--devices", help="Such as 2,3 or cpu,cpu. Without it: every GPU, or else one worker on the processor.")
@click.option(
    "--backend",
    type=click.Choice(["local", "ray", "torchrun"]),
    default="local",
    show_default=True,
    help="Where workers run.",
)
@click.option(
    "--address",
    help="Address of a Ray cluster; 'auto' finds a running one. Without it, Ray is started on this machine.",
)
@click.option(
    "--schedule",
    type=click.Choice(["queue", "stride"]),
    default="queue",
    show_default=True,
    help="Who computes what: whoever is free, or fixed shares.",
)
@click.option("--resume", is_flag=True, help="Go on with the run that the folder holds.")
@click.option("--restart", is_flag=True, help="Remove what the folder holds of a run, and start over.")
@click.option(
    "--order",
    type=click.Choice(["input", "length"]),
    default="input",
    show_default=True,
    help="The order of the result.",
)
@click.option(
    "--output-dtype", type=click.Choice(["float32", "float16"]), help="Type of the result; the encoder's unless given."
)
@click.option(
    "--batch-timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    help="Seconds after which a batch counts as hung.",
)
@click.option(
    "--load-timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=1800.0,
    show_default=True,
    help="Seconds after which loading the encoder counts as hung.",
)
@click.option("--trust-remote-code", is_flag=True, help="Run code that comes with a model.")
@click.option("--unsafe-weights", is_flag=True, help="Load weights that are pickles, too.")
@common_options()
def command(files: tuple[str, ...], output: str, as_json: bool, quiet: bool, **options: Any) -> None:
    """Run an encoder over every sequence of FILES.

    All devices work on it, and the vectors go into one HDF5 file. FILES may be globs, folders and indexes. Whatever
    ends a run, --resume goes on with what is missing: it takes FILES, the encoder and the batch options from the run.

    Exit codes: 0 every sequence has its vector, 1 some have none or the run could not go on, 2 the command was used
    wrongly, 130 and 143 interrupted.
    """
    from seekset.cli.display import chosen_display
    from seekset.errors import MismatchError
    from seekset.inference.request import Request
    from seekset.inference.run import LeaderError, embed

    if options["resume"] and options["restart"]:
        raise click.UsageError("a run is resumed or started over, not both")
    if not files and not options["resume"]:
        raise click.UsageError("give FASTA files, or --resume to go on with those of the run")
    if Path(output).exists() and not Path(output).is_dir():
        raise NotADirectoryError(ENOTDIR, "it is a file, but a folder is needed", output)
    if not files and not (Path(output) / _MANIFEST).exists():
        raise click.UsageError(
            f"-o {output}: it holds no run that --resume could go on with; give FASTA files to begin one"
        )
    try:
        request = Request.of(files, output, _as_begun(output, options) if options["resume"] else options)
    except MismatchError as error:
        raise click.UsageError(str(error)) from None
    try:
        summary = embed(request, chosen_display(quiet=quiet or as_json))
    except LeaderError:
        click.get_current_context().exit(1)  # what is wrong, that rank says
    if summary.leads:
        _tell(summary, output, as_json=as_json, quiet=quiet)
    click.get_current_context().exit(summary.exit_code)


def _as_begun(folder: str, options: dict[str, Any]) -> dict[str, Any]:
    """Options with those of the run in a folder where none was given; what was given and differs is refused later."""
    from click.core import ParameterSource

    from seekset.inference.job import Manifest

    if not (Path(folder) / _MANIFEST).exists():
        return options
    begun = Manifest.load(Path(folder))
    run = {**begun.encoder, **begun.rules, "model_args": begun.encoder["arguments"]}
    source = click.get_current_context().get_parameter_source
    return {
        name: run[name] if name in run and source(name) is ParameterSource.DEFAULT else value
        for name, value in options.items()
    }


def _tell(summary: Summary, folder: str, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        from dataclasses import asdict

        show_json({name: value for name, value in asdict(summary).items() if name != "leads"})
        return
    if summary.output is not None and not quiet:
        show_data(summary.output)
    if summary.failed:
        say(f"{summary.failed} of {summary.sequences} sequences have no vector: {folder}/failed.jsonl says why")
    if summary.given_up:
        say(f"workers {', '.join(map(str, summary.given_up))} were given up on: see {folder}/logs")
    if summary.output is None:
        done = f"{summary.done} of {summary.sequences} sequences are done"
        say(f"{folder}: {summary.reason}; {done}, and --resume goes on with the rest")
