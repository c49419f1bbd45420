"""``seekset tfrecord``: what can be done with TFRecord files besides indexing them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from seekset.cli.files import find_each
from seekset.cli.options import PATH, common_options, debug_option
from seekset.cli.terminal import show_faults, show_json, show_line, show_table
from seekset.progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from seekset.examples import Values

# How many values of a feature, bytes of one value and bytes of a payload that is no Example are shown.
_SHOWN, _BYTES_SHOWN, _DUMPED = 8, 60, 512


@click.group(name="tfrecord")
@debug_option
def command() -> None:
    """Look into TFRecord files."""


@command.command(name="decompress")
@click.argument("file", type=PATH)
@click.option(
    "-o", "--output", type=PATH, help="Where the plain file goes; FILE without its .gz or .zlib unless given."
)
@click.option("--index", is_flag=True, help="Write the index for DALI as well, beside the plain file.")
@click.option("-f", "--replace", "--force", "force", is_flag=True, help="Replace files that are there already.")
@common_options()
def decompress(file: str, output: str | None, index: bool, force: bool, as_json: bool, quiet: bool) -> None:
    """Decompress FILE (gzip or zlib) into the plain TFRecord file that DALI needs.

    All checksums are compared on the way, in one pass and in bounded memory. If a checksum is wrong, nothing is
    written.
    """
    from seekset.compression import decompress_tfrecord

    with progress_bar("decompressing", quiet=quiet or as_json) as told:
        plain = decompress_tfrecord(file, output, index=index, overwrite=force, verify="full", progress=told)
    facts = {"file": file, "plain": plain, "bytes": plain.stat().st_size}
    if as_json:
        show_json(facts)
    elif not quiet:
        show_table(list(facts), [list(facts.values())])


@command.command(name="verify")
@click.argument("files", nargs=-1, required=True, type=PATH)
@common_options(json="a JSON object for each file, one a line", but="faults")
def verify(files: tuple[str, ...], as_json: bool, quiet: bool) -> None:
    """Compare all checksums of FILES, of lengths and of payloads.

    It shows every fault with file, record and byte offset; files that can't be read are told on stderr. The exit code
    is 1 if there is a fault. FILES may be globs and folders.
    """
    from seekset import _core
    from seekset.errors import SeeksetError
    from seekset.indexing import Progress, side_by_side
    from seekset.tfrecord import find_tfrecords

    paths, unread = find_each(files, find_tfrecords)

    def one(file: Path, tell: Callable[[int, int], None]) -> tuple[Path, int, list[str]] | OSError:
        try:
            return file, *_core.survey_tfrecord(file, tell)
        except SeeksetError as error:  # compressed data that can't be inflated, so no record of it was seen
            return file, 0, [str(error)]
        except OSError as error:
            return error

    with progress_bar("verifying", quiet=quiet or as_json) as told:
        done = list(side_by_side(paths, one, watch=Progress(paths, told)))
    unread += [result for result in done if isinstance(result, OSError)]
    surveys = sorted(result for result in done if not isinstance(result, OSError))
    _tell_surveys(surveys, as_json=as_json, quiet=quiet)
    show_faults(unread)
    if any(faults for _, _, faults in surveys):
        click.get_current_context().exit(1)


def _tell_surveys(surveys: list[tuple[Path, int, list[str]]], *, as_json: bool, quiet: bool) -> None:
    """Tell the faults of files. A record that is broken or cut was seen as well."""
    for file, records, faults in surveys:
        if as_json:
            show_json({"file": file, "records_seen": records, "faults": faults})
            continue
        for fault in faults:
            show_line(fault)
    if surveys and not (quiet or as_json):
        rows = [(file, records, len(faults)) for file, records, faults in surveys]
        show_table(("file", "records seen", "faults"), rows)


@command.command(name="show")
@click.argument("file", type=PATH)
@click.argument("row", type=int)
@click.option("--all", "everything", is_flag=True, help="Show all values, however many.")
@common_options(json="one JSON object, with all values, and bytes in base64")
def show(file: str, row: int, everything: bool, as_json: bool, quiet: bool) -> None:
    """Show record ROW of FILE: the features of its Example, or its bytes if it is none.

    Rows count from 0, and from the end if negative (put -- before such a one).
    """
    from seekset.tfrecord import TFRecordFile

    with TFRecordFile(file, verify="full") as records:
        try:
            payload = records[row]
        except IndexError as error:
            raise click.UsageError(str(error)) from None
        count, (offset, _) = len(records), records.entry(row)
    if as_json:
        place = {"file": file, "record": row % count, "records": count, "offset": offset}
        show_json({**place, "bytes": len(payload), **_in_json(payload)})
    elif not quiet:
        click.echo(f"record {row % count} of {count}, byte {offset}, {len(payload)} bytes of payload")
        _show_payload(payload, everything=everything)


def _show_payload(payload: bytes, *, everything: bool) -> None:
    rows = _features(payload, everything=everything)
    if rows:
        show_table(("feature", "kind", "values", ""), rows)
    elif payload:
        for line in _dump(payload if everything else payload[:_DUMPED]):
            click.echo(line)


def _decoded(payload: bytes) -> tuple[dict[str, Values], dict[str, list[Values | None]]] | None:
    """The features of an Example, or context and lists of a SequenceExample; nothing if the payload is neither."""
    from seekset.errors import FormatError
    from seekset.examples import decode_example, decode_sequence_example

    try:
        context, lists = decode_sequence_example(payload)
        return context if lists else decode_example(payload), lists
    except FormatError:
        return None


def _in_json(payload: bytes) -> dict[str, Any]:
    from base64 import b64encode
    from math import isfinite

    def plain(values: Values) -> list[Any]:
        if isinstance(values, list):
            return [b64encode(value).decode() for value in values]
        # There is no other word for these in JSON.
        return [str(one) if isinstance(one, float) and not isfinite(one) else one for one in values.tolist()]

    found = _decoded(payload)
    if found is None or not (found[0] or found[1]):
        return {"payload": b64encode(payload).decode()}
    context, lists = found
    features = {name: {"kind": _kind(values), "values": plain(values)} for name, values in context.items()}
    steps = {name: [None if one is None else plain(one) for one in many] for name, many in lists.items()}
    return {"features": features, **({"lists": steps} if steps else {})}


def _features(payload: bytes, *, everything: bool) -> list[tuple[str, str, int, str]]:
    """What an Example or a SequenceExample holds, one row for each feature; nothing if the payload is neither."""
    context, lists = _decoded(payload) or ({}, {})
    rows = [
        (name, _kind(values), len(values), _some(values, everything=everything)) for name, values in context.items()
    ]
    for name, steps in lists.items():
        first: Values = next((step for step in steps if step is not None), [])
        shown = "; ".join("-" if step is None else _some(step, everything=everything) for step in steps)
        rows.append((name, f"list of {_kind(first)}", len(steps), shown))
    return rows


def _kind(values: Values) -> str:
    return "bytes" if isinstance(values, list) else str(getattr(values, "dtype", ""))


def _some(values: Values, *, everything: bool) -> str:
    """Values in a line, the first of them if they are many."""
    shown = list(values if everything else values[:_SHOWN])
    words = [_word(value, everything=everything) for value in shown]
    return " ".join([*words, "…"] if len(shown) < len(values) else words)


def _word(value: object, *, everything: bool) -> str:
    if isinstance(value, bytes):
        return repr(value) if everything or len(value) <= _BYTES_SHOWN else f"{value[:_BYTES_SHOWN]!r}…"
    return str(value)


def _dump(payload: bytes) -> Iterator[str]:
    """Bytes in hexadecimal and as text, sixteen in a line."""
    for at in range(0, len(payload), 16):
        some = payload[at : at + 16]
        text = "".join(chr(byte) if chr(byte).isascii() and chr(byte).isprintable() else "." for byte in some)
        yield f"{at:08x}  {some.hex(' '):<47}  {text}"
