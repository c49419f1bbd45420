"""What all commands have in common: how they are listed, which options they have, and how they end."""

import io
import json
import os
import pty
import re
import socket
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from rich.console import Console

import seekset
from seekset.cli import STAGES, cli
from seekset.cli.endings import EXIT_CODES, code_of
from seekset.cli.tables import DrawnTable
from seekset.inference.lock import FolderLock

PROTEINS = b">seq_1 one\nMTKIALSDFG\nHKQWE\n>seq_2\nMKV\n"
# These print what they are for, and nothing about it.
SILENT = {"demo", "completion"}


@pytest.fixture
def run(tmp_path):
    """`run("get", ...)` runs a command in a folder with a FASTA file and gives what came out."""
    (tmp_path / "p.fa").write_bytes(PROTEINS)

    def run(*words, **options):
        command = [sys.executable, "-m", "seekset", *map(str, words)]
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False, **options
        )

    return run


@pytest.fixture
def shell(tmp_path):
    """`shell("{seekset} stats p.fa | head -1")` gives what bash printed, and the exit code of the first command."""
    (tmp_path / "p.fa").write_bytes(PROTEINS)

    def shell(line):
        line = line.format(seekset=f"{sys.executable} -m seekset") + '; exit "${PIPESTATUS[0]}"'
        return subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
        )

    return shell


@pytest.fixture
def on_terminal(tmp_path):
    """`on_terminal("stats", "p.fa")` is what a command shows on a terminal."""
    (tmp_path / "p.fa").write_bytes(PROTEINS)

    def on_terminal(*words, columns=120):
        ours, its = pty.openpty()
        command = [sys.executable, "-m", "seekset", *words]
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns)}
        shown = b""
        with subprocess.Popen(command, cwd=tmp_path, stdin=its, stdout=its, stderr=its, env=environment) as process:
            os.close(its)
            # A terminal whose other side is closed is an error to read from.
            while part := _read(ours):
                shown += part
        os.close(ours)
        assert process.returncode == 0, shown
        return shown.decode()

    return on_terminal


def _read(descriptor):
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:
        return b""


def leaves(group=cli, path=()):
    """Every command that does something, with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield (*path, name), command


LEAVES = dict(leaves())
TELLING = [words for words in LEAVES if words[0] not in SILENT]


# --- help -------------------------------------------------------------------------------------------------------------


def test_help_lists_commands_by_stage(run):
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    heads = [line for line in done.stdout.splitlines() if re.fullmatch(r"\w[\w ]*:", line)]
    assert heads == ["Options:", "Index:", "Look:", "Plan:", "Batch:", "Run:", "Other:", "Exit codes:"]
    for stage, commands in STAGES.items():
        section = done.stdout.split(f"\n{stage}:\n")[1].split("\n\n")[0]
        assert [line.split()[0] for line in section.splitlines()] == list(commands)


def test_what_help_says_about_commands_is_what_they_say_of_themselves():
    context = click.Context(cli)
    for commands in STAGES.values():
        for name, (_, about) in commands.items():
            assert cli.get_command(context, name).get_short_help_str(limit=200) == about


def test_help_lists_every_exit_code(run):
    section = run("--help").stdout.split("\nExit codes:\n")[1]
    assert [int(line.split()[0]) for line in section.splitlines()] == list(EXIT_CODES) == [0, 1, 2, 70, 130, 141, 143]


def test_help_imports_neither_numpy_nor_a_command(tmp_path):
    program = """
import sys, seekset.cli
sys.argv = ["seekset", "--help"]
try:
    seekset.cli.main()
finally:
    heavy = {"numpy", "torch", "rich", "logging", "importlib.metadata", "seekset._core"} & set(sys.modules)
    print(sorted(heavy | {name for name in sys.modules if name.startswith("seekset.cli.")}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    expected = ["seekset.cli.endings", "seekset.cli.options", "seekset.cli.terminal"]
    assert done.stdout.splitlines()[-1] == str(expected)


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_every_command_has_a_help_that_imports_no_numpy(words):
    program = f"import sys; sys.argv[1:] = {[*words, '--help']}; from seekset.cli import main\n"
    program += "try:\n    main()\nfinally:\n    print({'numpy', 'torch', 'rich', 'seekset._core'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.splitlines()[0].startswith(f"Usage: seekset {' '.join(words)} ")
    assert done.stdout.splitlines()[-1] == "set()"


# --- options that all have --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_common_options_come_last_in_one_order_and_with_the_same_words(words):
    *_, debug = options = [param for param in LEAVES[words].params if isinstance(param, click.Option)]
    assert (debug.opts, debug.help) == (["--debug"], "Show the traceback of an error.")
    if words in TELLING:
        as_json, quiet = options[-3:-1]
        assert (as_json.opts, quiet.opts) == (["--json"], ["-q", "--quiet"])
        assert re.fullmatch(r"Print (one|a) JSON object.*, and nothing else\.", as_json.help)
        assert re.fullmatch(r"Show nothing but (errors|faults|records and errors)\.", quiet.help)


@pytest.fixture
def samples(tmp_path, run):
    """A folder in which every command has something to do."""
    (tmp_path / "genome.fa").write_bytes(b">P__x-A__c1\nACGTACGTACGT\n")
    with seekset.TFRecordWriter(tmp_path / "e.tfrecord", index=False) as writer:
        writer.write_example({"x": [0.5, float("nan")], "name": b"\xff", "n": [1, 2]})
        writer.write(b"raw")
    with seekset.TFRecordWriter(tmp_path / "packed.tfrecord.gz", compression="gzip", index=False) as writer:
        writer.write(b"raw")
    (tmp_path / "shards").mkdir()
    np.savez(tmp_path / "shards" / "0.npz", x=np.zeros((5, 2)))
    for words in (
        ("eden", "build", "genome.fa", "-o", "dbs", "--parquet", "contigs.parquet", "-q"),
        ("eden", "precompute", "contigs.parquet", "w.sqlite", "--window-size", 6, "--stride", 4, "-q"),
        ("embed", "p.fa", "-o", "out", "-q"),
    ):
        done = run(*words)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "window_access_train_rank0_0123abcd.csv").write_text("window_idx\n0\n")
    return run


EXAMPLES = {
    ("index",): ("p.fa", "genome.fa"),
    ("faidx",): ("p.fa",),
    ("tfrecord-index",): ("e.tfrecord",),
    ("get",): ("p.fa", "seq_1", "seq_2:2-3"),
    ("stats",): ("p.fa", "genome.fa"),
    ("tfrecord", "decompress"): ("packed.tfrecord.gz", "-f"),
    ("tfrecord", "verify"): ("e.tfrecord",),
    ("tfrecord", "show"): ("e.tfrecord", "0"),
    ("report",): ("p.fa", "-o", "p.html"),
    ("plan",): ("p.fa", "--world-size", "2"),
    ("pool", "inspect"): ("shards",),
    ("eden", "build"): ("genome.fa", "-o", "dbs", "--replace"),
    ("eden", "precompute"): ("contigs.parquet", "w.sqlite"),
    ("eden", "validate"): ("dbs", "w.sqlite"),
    ("eden", "stats"): ("w.sqlite", "--log-dir", "logs"),
    ("embed",): ("p.fa", "-o", "out", "--resume"),
    ("status",): ("out",),
    ("aggregate",): ("out",),
    ("doctor",): (),
}
# One line for each file or region.
LINES = {("index",): 2, ("get",): 2, ("stats",): 2}


def test_all_commands_tell_programs_in_json_and_nothing_if_quiet(samples):
    assert set(EXAMPLES) == set(TELLING)
    for words, arguments in EXAMPLES.items():
        plain = samples(*words, *arguments)
        assert plain.returncode == 0, (words, plain.stderr)
        assert plain.stdout, words
        told = samples(*words, *arguments, "--json")
        assert (told.returncode, told.stderr) == (0, ""), words
        found = [json.loads(line, parse_constant=pytest.fail) for line in told.stdout.splitlines()]
        assert len(found) == LINES.get(words, 1), words
        assert all(isinstance(one, dict) for one in found)
        quiet = samples(*words, *arguments, "-q")
        assert (quiet.returncode, quiet.stderr) == (0, ""), words
        assert bool(quiet.stdout) == (words == ("get",)), words


def test_keys_of_json_can_be_names(samples):
    def keys(value):
        if isinstance(value, dict):
            yield from value
        for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from keys(one)

    for words in (("eden", "precompute"), ("eden", "stats"), ("status",), ("pool", "inspect"), ("tfrecord", "verify")):
        found = json.loads(samples(*words, *EXAMPLES[words], "--json").stdout)
        assert all(key.isidentifier() or key.isdigit() for key in keys(found)), words


def test_get_tells_of_regions_in_json(run):
    first, second = map(json.loads, run("get", "--json", "p.fa", "seq_1", "seq_2:2-3").stdout.splitlines())
    assert first["sequence"] == "MTKIALSDFGHKQWE"
    assert second == {
        "region": "seq_2:2-3",
        "id": "seq_2",
        "start": 1,
        "end": 3,
        "reverse_complement": False,
        "sequence": "KV",
    }


def test_a_record_of_examples_is_whole_in_json(samples):
    facts = json.loads(samples("tfrecord", "show", "e.tfrecord", "0", "--json").stdout)
    assert facts["features"] == {
        "x": {"kind": "float32", "values": [0.5, "nan"]},
        "name": {"kind": "bytes", "values": ["/w=="]},
        "n": {"kind": "int64", "values": [1, 2]},
    }
    facts = json.loads(samples("tfrecord", "show", "e.tfrecord", "1", "--json").stdout)
    assert (facts["record"], facts["bytes"], facts["payload"]) == (1, 3, "cmF3")


def test_an_index_on_stdout_leaves_no_room_for_json(run):
    done = run("tfrecord-index", "-", "--json", stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (2, "")
    assert "give -o" in done.stderr


def test_quiet_keeps_remarks_back_but_no_errors(run, tmp_path):
    (tmp_path / "cut").write_bytes(b">a\nAC\n>a\nG\n")
    assert "an id that an earlier one has" in run("index", "cut").stderr
    assert run("index", "-q", "cut").stderr == ""
    assert run("get", "--index", "missing/x.sidx", "p.fa", "seq_2").stderr.count("can't be written") == 1
    assert run("get", "--index", "missing/x.sidx", "-q", "p.fa", "seq_2").stderr == ""
    assert run("stats", "-q", "missing.fa").stderr == "seekset: missing.fa: No such file or directory\n"


@pytest.mark.parametrize(
    "words", [("--debug", "stats", "no.fa"), ("stats", "--debug", "no.fa"), ("get", "no.fa", "a", "--debug")]
)
def test_debug_may_stand_before_the_command_or_after_it(run, words):
    done = run(*words)
    assert done.returncode == 1
    assert "Traceback (most recent call last):" in done.stderr
    plain = run(*(word for word in words if word != "--debug"))
    assert (plain.returncode, plain.stderr) == (1, "seekset: no.fa: No such file or directory\n")


# --- a terminal and a pipe --------------------------------------------------------------------------------------------


def test_tables_are_drawn_on_a_terminal_and_plain_in_a_pipe(on_terminal, run):
    assert "───" in on_terminal("stats", "p.fa")
    assert run("stats", "p.fa").stdout.startswith("file\trecords\t")


def drawn(width, *table, **options):
    """The lines of a table on a terminal of a width."""
    file = io.StringIO()
    Console(file=file, width=width).print(DrawnTable(*table, **options))
    return file.getvalue().splitlines()


FILES = (
    ("file", "records seen", "letters", "speed", ""),
    [
        ("data/of-all-the-samples/proteins.fa", 1234567, 1234567890, "512.3 MB/s", "two records have the same id"),
        ("p.fa", 2, 18, "0.1 MB/s", ""),
    ],
)


@pytest.mark.parametrize("width", range(30, 140, 5))
def test_no_terminal_is_so_narrow_that_numbers_or_words_break(width):
    lines = drawn(width, *FILES)
    assert max(map(len, lines)) <= width
    for whole in ("data/", "of-all-the-samples/", "proteins.fa", "1,234,567", "1,234,567,890", "512.3 MB/s", "records"):
        assert any(whole in line for line in lines), whole
    # What has room is not folded.
    if width >= 115 or 45 <= width < 75:
        assert any("data/of-all-the-samples/proteins.fa" in line for line in lines)


def test_names_and_what_they_stand_for_are_pairs_where_a_table_has_no_room():
    rows = [("system", "Linux-6.1.0-x86_64-with-glibc2.36"), ("threads", "8")]
    assert drawn(40, ("machine", ""), rows) == [
        "machine",
        "system:",
        "  Linux-6.1.0-x86_64-with-glibc2.36",
        "threads: 8",
    ]
    assert "───" in "".join(drawn(50, ("machine", ""), rows))


def test_a_table_of_nothing_is_its_heads():
    assert [line.split() for line in drawn(40, ("file", "records"), []) if "r" in line] == [["file", "records"]]
    assert drawn(10, ("file", "records"), []) == []


def test_rows_are_lists_where_a_table_has_no_room(on_terminal):
    shown = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal("stats", "p.fa", "p.fa", columns=40))
    assert shown.replace("\r\n", "\n").startswith("file: p.fa\nrecords: 2\nletters: 18\n")


def test_the_id_of_a_process_is_no_amount(on_terminal, tmp_path):
    (tmp_path / "out").mkdir()
    begun = {"time": 1.0, "event": "run_started", "sequences": 9, "tokens": 99, "done": 0, "done_tokens": 0, "pid": 1}
    started = {"time": 2.0, "event": "worker_started", "rank": 0, "device": "cpu", "pid": 1234567}
    chunk = {"time": 3.0, "event": "chunk_finished", "rank": 0, "sequences": 98765, "tokens": 98765}
    lines = [json.dumps(event) + "\n" for event in (begun, started, chunk)]
    (tmp_path / "out" / "events.jsonl").write_text("".join(lines))
    for columns in (120, 40):
        shown = on_terminal("status", "out", columns=columns)
        assert " 1234567" in shown
        assert " 98,765" in shown


def test_json_is_the_same_on_a_terminal(on_terminal, run):
    assert on_terminal("stats", "--json", "p.fa").replace("\r\n", "\n") == run("stats", "--json", "p.fa").stdout


def test_a_run_is_watched_in_plain_lines_in_a_pipe(run, tmp_path):
    assert run("embed", "p.fa", "-o", "out", "-q").returncode == 0
    done = run("status", "out", "--watch")
    assert done.returncode == 0
    assert done.stdout.startswith("ended (complete): 2 of 2 sequences")
    assert "\x1b" not in done.stdout
    (found,) = map(json.loads, run("status", "out", "--watch", "--json").stdout.splitlines())
    assert found["state"] == "ended (complete)"


def test_whoever_watches_is_told_when_the_run_gets_on(run, tmp_path):
    """A run that is preparing when it is first looked at, and over when it is looked at again."""
    assert run("embed", "p.fa", "-o", "out", "-q").returncode == 0
    command = [sys.executable, "-m", "seekset", "status", "out", "--watch", "--json"]
    with FolderLock(tmp_path / "out"):
        watch = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        first = watch.stdout.readline()
    rest, _ = watch.communicate(timeout=60)
    assert [json.loads(line)["state"] for line in (first, *rest.splitlines())] == ["preparing", "ended (complete)"]


# --- what can't be seen -----------------------------------------------------------------------------------------------


# Clears the screen, rings, turns text around, and ends a line and a column.
ODD, SPELLED = "a\x1b[2J\x07\u202eb", r"a\x1b[2J\x07\u202eb"


@pytest.fixture
def odd(tmp_path):
    """A FASTA file with an odd name and an odd id."""
    path = tmp_path / f"{ODD}\t\n.fa"
    path.write_text(f">{ODD} odd\nMKV\n")
    return path.name


def test_what_is_asked_for_is_exact_in_a_pipe_and_spelled_out_on_a_terminal(on_terminal, run, odd, tmp_path):
    assert run("get", odd, ODD).stdout == f">{ODD}\nMKV\n"
    assert on_terminal("get", odd, ODD) == f">{SPELLED}\r\nMKV\r\n"
    assert run("faidx", odd).stdout == f"{odd}.fai\n"
    assert on_terminal("faidx", odd).endswith(rf"{SPELLED}\t\n.fa.fai" + "\r\n")


def test_a_name_that_is_no_text_is_told_as_its_bytes_in_a_pipe(run, tmp_path):
    (tmp_path / os.fsdecode(b"\xff.fa")).write_bytes(PROTEINS)
    command = [sys.executable, "-m", "seekset", "faidx", b"\xff.fa"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout == b"\xff.fa.fai\n"
    assert run("stats", os.fsdecode(b"\xff.fa")).stdout.splitlines()[1].startswith("\\udcff.fa\t2\t")


def test_tables_spell_out_what_can_not_be_seen(on_terminal, run, odd):
    head, row = run("stats", odd).stdout.splitlines()
    assert row.split("\t")[0] == rf"{SPELLED}\t\n.fa"
    assert len(row.split("\t")) == len(head.split("\t"))
    shown = on_terminal("stats", odd)
    assert "\x1b[2J" not in shown
    assert "\x07" not in shown
    assert r"a\x1b" in shown  # the rest may be in the next line of its column
    assert json.loads(run("stats", "--json", odd).stdout)["file"] == odd


@pytest.mark.parametrize("debug", [(), ("--debug",)])
def test_errors_spell_out_what_can_not_be_seen(run, odd, debug):
    for words in (("get", odd, "other"), ("get", f"{ODD}.none", "a"), (f"{ODD}",), ("stats", f"--{ODD}")):
        done = run(*words, *debug)
        assert r"\x1b[2J" in done.stderr
        assert not set("\x1b\x07\u202e") & set(done.stderr)


def test_news_of_a_run_spell_out_what_can_not_be_seen(tmp_path):
    program = """
import sys
from pathlib import Path
from seekset.cli.display import LiveDisplay
from seekset.progress import progress_bar

display = LiveDisplay()
display.tell({"event": "sequence_failed", "time": 0.0, "sequence_id": sys.argv[1], "reason": "two\\nlines"})
display.close()
with progress_bar(f"[red]{sys.argv[1]}", quiet=False) as tell:
    tell(1, 2)
"""
    ours, its = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen([sys.executable, "-c", program, ODD], stdout=its, stderr=its, env=environment):
        os.close(its)
        shown = b"".join(iter(lambda: _read(ours), b"")).decode()
    os.close(ours)
    assert f"{SPELLED} is set aside: two lines" in shown
    assert f"[red]{SPELLED}" in shown
    assert "\x1b[2J" not in shown
    assert "\x07" not in shown


# --- how commands end -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words, told",
    [
        ((), None),
        (("indx",), "there is no command 'indx': is index or faidx meant? (see `seekset --help`)"),
        (("xyz",), "there is no command 'xyz': there are index, faidx, "),
        (("index",), "Missing argument 'FILES...' (see `seekset index --help`)"),
        (("index", "--jsn", "p.fa"), "(see `seekset index --help`)"),
        (("plan", "p.fa", "--table", "no"), "'no' is not one of 'esm', 'dna'"),
        (("get", "p.fa"), "give at least one id or region, or a file of them with -r"),
        (("completion", "tcsh"), "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
        (("embed", "-o", "new", "--resume"), "-o new: it holds no run that --resume could go on with; give FASTA"),
        (("demo", "--folder", "p.fa"), "p.fa is a file: give --folder another name"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(run, tmp_path, words, told):
    done = run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    if told is not None:
        assert done.stderr.startswith("seekset: ")
        assert told in done.stderr
        assert done.stderr.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_a_missing_list_of_regions_is_a_missing_file(run):
    done = run("get", "p.fa", "-r", "missing.txt")
    assert (done.returncode, done.stderr) == (1, "seekset: missing.txt: No such file or directory\n")


def test_a_file_where_a_folder_is_needed_is_a_wrong_file(run):
    done = run("embed", "p.fa", "-o", "p.fa")
    assert (done.returncode, done.stderr) == (1, "seekset: p.fa: it is a file, but a folder is needed\n")


@pytest.mark.parametrize("address", ["bad", "127.0.0.1:9", "ray://127.0.0.1:9"])
def test_a_ray_cluster_that_is_not_there_is_told_at_once(run, address):
    done = run("embed", "p.fa", "-o", "out", "--backend", "ray", "--address", address)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"seekset: no Ray cluster can be reached at '{address}': ")
    assert "give --address as HOST:PORT" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_ray_cluster_that_asks_for_a_token_is_told_with_what_to_set(run, tmp_path):
    secret = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    with socket.create_server(("127.0.0.1", 0)) as listens:
        address = f"127.0.0.1:{listens.getsockname()[1]}"
        words = ("embed", "p.fa", "-o", "out", "--backend", "ray", "--address", address)
        done = run(*words, env={**secret, "RAY_AUTH_MODE": "token", "HOME": str(tmp_path)})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"seekset: the Ray cluster at '{address}' asks for a token (AuthenticationError: ")
    assert (
        "); set RAY_AUTH_MODE=token, and its token as RAY_AUTH_TOKEN or in the file RAY_AUTH_TOKEN_PATH" in done.stderr
    )
    assert done.stderr.count("\n") == 1


def ended(tmp_path, statement, *words):
    """What comes out if the body of `seekset stats` is another statement."""
    program = f"""
import sys, seekset.cli, seekset.cli.stats as stats
def body(**_):
    {statement}
stats.command.callback = body
sys.argv = ["seekset", "stats", "p.fa", *{list(words)}]
seekset.cli.main()
"""
    return subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize(
    "statement, code, told",
    [
        (
            "raise TypeError('no\\nway')",
            70,
            "unexpected error: TypeError: no way; run it again with --debug to see where, and please report it",
        ),
        ("raise MemoryError", 1, "there is not enough memory"),
        ("import torch_that_is_not_there", 70, "unexpected error: ModuleNotFoundError: "),
        (
            "sys.modules['h5py'] = None; import h5py",
            1,
            "h5py, which is not installed: pip install 'seekset[inference]'",
        ),
        ("raise ImportError(\"pip install 'seekset[x]'\")", 1, "pip install 'seekset[x]'"),
        ("raise EOFError('cut')", 70, "unexpected error: EOFError: cut"),
        ("raise OSError('odd')", 1, "odd"),
        ("raise OSError(28, 'No space left on device')", 1, "seekset: No space left on device\n"),
        ("raise KeyboardInterrupt", 130, ""),
        ("sys.exit(7)", 7, ""),
        ("raise BrokenPipeError(32, 'Broken pipe')", 1, "Broken pipe"),
    ],
)
def test_every_error_has_one_line_and_a_code(tmp_path, statement, code, told):
    done = ended(tmp_path, statement)
    assert (done.returncode, done.stdout) == (code, "")
    assert told in done.stderr
    assert done.stderr.count("\n") == bool(told)
    debugged = ended(tmp_path, statement, "--debug")
    assert debugged.returncode == code
    assert ("Traceback" in debugged.stderr) == bool(told)


def test_a_panic_of_the_extension_is_unexpected():
    class PanicException(BaseException):
        """As PyO3 has it."""

    assert code_of(PanicException("index out of bounds"), debug=False) == 70


@pytest.mark.parametrize("words", ["stats p.fa", "get p.fa seq_1", "doctor --help", "stats --json p.fa"])
def test_a_reader_that_goes_away_is_no_error(shell, words):
    done = shell("{seekset} " + words + " | true")
    assert (done.stdout, done.stderr) == ("", "")
    assert done.returncode in (0, 141)  # it may have been quicker than its reader


def test_output_that_nobody_reads_is_told_by_the_exit_code(tmp_path):
    (tmp_path / "p.fa").write_bytes(PROTEINS)
    ours, its = os.pipe()
    os.close(ours)
    command = [sys.executable, "-m", "seekset", "stats", "p.fa"]
    done = subprocess.run(command, cwd=tmp_path, stdout=its, stderr=subprocess.PIPE, timeout=300, check=False)
    os.close(its)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("words, code", [(("stats", "--jsn"), 2), ((), 2), (("xyz",), 2), (("get", "no.fa", "a"), 1)])
def test_an_error_that_nobody_can_be_told_of_has_its_code(tmp_path, words, code):
    ours, its = os.pipe()
    os.close(ours)
    with Path("/dev/full").open("w") as full:
        for nowhere in (its, full):
            command = [sys.executable, "-m", "seekset", *words]
            assert subprocess.run(command, cwd=tmp_path, stderr=nowhere, timeout=300, check=False).returncode == code
    os.close(its)


def test_a_full_disk_is_told_in_one_line(shell):
    done = shell("{seekset} stats p.fa > /dev/full")
    assert (done.returncode, done.stderr) == (1, "seekset: No space left on device\n")


def test_closed_streams_are_no_error(shell):
    assert shell("{seekset} stats p.fa >&-").returncode == 0
    assert shell("{seekset} stats missing.fa >&- 2>&-").returncode == 1


# --- completion -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(run, name):
    done = run("completion", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"_SEEKSET_COMPLETE={name}_complete" in done.stdout
    assert "_seekset_completion" in done.stdout


def completed(run, *words):
    """What bash is told that may follow."""
    asked = {"_SEEKSET_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = run(env={**os.environ, **asked})
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_commands_options_choices_and_paths_are_completed(run):
    assert completed(run, "seekset", "ta") == [""]
    assert completed(run, "seekset", "st") == ["plain,stats", "plain,status"]
    assert completed(run, "seekset", "eden", "b") == ["plain,build"]
    assert completed(run, "seekset", "stats", "--j") == ["plain,--json"]
    assert completed(run, "seekset", "plan", "--table", "d") == ["plain,dna"]
    for words in (("stats", "p"), ("plan", "-o", "p"), ("tfrecord", "verify", "p"), ("embed", "x.fa", "-o", "p")):
        assert completed(run, "seekset", *words) == ["file,p"]


def test_bash_completes_with_the_script(shell, tmp_path):
    (tmp_path / "seekset").write_text(f'#!/bin/sh\nexec {sys.executable} -m seekset "$@"\n')
    (tmp_path / "seekset").chmod(0o755)
    line = 'PATH=$PWD:$PATH; eval "$(seekset completion bash)"; COMP_WORDS=(seekset st); COMP_CWORD=1; '
    line += "_seekset_completion seekset; echo ${{COMPREPLY[@]}}"
    done = shell(line)
    assert (done.stdout, done.stderr) == ("stats status\n", "")
