"""`seekset report`: pages that parse, hold their figures, and let nothing of the data become part of the page."""

import base64
import hashlib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

import runs
import seekset
from seekset import Plan, SequenceIndex
from seekset.contents import content_of
from seekset.datasets import StreamingMixedShardDataset
from seekset.report import as_json, index_figures, page_of, plan_figures, run_figures, write_page

SCRIPT = "<script>alert(1)</script>"
QUOTES = "\"&'>"
HOSTILE = f">{SCRIPT} {QUOTES} <img src=x onerror=alert(1)>\nMKVLAAGIVG\n>{QUOTES}\nMK\n>\u202edcba\x07\nMKV\n"


class Page(HTMLParser):
    """A page that is taken apart: an element that is not closed, or not allowed, is an error."""

    VOID = frozenset({"meta"})
    ALLOWED = re.compile(
        "html|head|meta|title|style|body|main|header|footer|section|h1|h2|p|dl|div|dt|dd|figure|figcaption|details|"
        "summary|table|thead|tbody|tr|th|td|bdi|svg|desc|g|rect|line|path|text"
    )

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.metas, self.texts, self.tables, self.facts = [], [], [], [], {}
        self.charts, self.sections = [], []
        assert text.startswith("<!doctype html>\n<html lang=")
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        assert self.ALLOWED.fullmatch(tag), tag
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names))
        assert not {"src", "href", "style", "action", "data", "xlink:href"} & set(names)
        assert not [name for name in names if name.startswith("on")]
        if tag == "meta":
            self.metas.append(dict(attributes))
        if tag == "svg":
            self.charts.append({})
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        inside = set(self.open)
        if inside & {"td", "th"}:
            self.tables[-1][-1][-1] += data
        elif "dt" in inside:
            self.fact = data
        elif "dd" in inside:
            self.facts[self.fact] = data
        elif self.open and self.open[-1] == "h2":
            self.sections.append(data)
        elif len(self.open) > 1 and self.open[-2] == "svg" and self.open[-1] in ("title", "desc"):
            self.charts[-1][self.open[-1]] = data

    def rows(self, *heads):
        """The rows of the table that has these heads."""
        [found] = [table for table in self.tables if tuple(table[0]) == heads]
        return found[1:]


@pytest.fixture
def cli(tmp_path):
    """`cli("p.fa", ...)` runs `seekset report` in tmp_path and gives what came out."""

    def run(*words):
        command = [sys.executable, "-m", "seekset", "report", *map(str, words)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)

    return run


@pytest.fixture
def reported(cli, tmp_path):
    """`reported("p.fa", ...)` is the page and the figures of one call of `seekset report`."""

    def reported(*words):
        done = cli(*words, "-o", "report.html", "--json")
        assert done.returncode == 0, done.stderr
        return Page((tmp_path / "report.html").read_text()), json.loads(done.stdout)

    return reported


@pytest.fixture
def proteins(write):
    """Sequences of 1 to 4000 letters."""
    lengths = np.unique(np.geomspace(1, 4000, 300).astype(int)).tolist()
    write("".join(f">p{n} of {n}\n{'M' * n}\n" for n in lengths).encode(), "p.fa")
    return lengths


def counted(page, *heads):
    return sum(int(row[1].replace(",", "")) for row in page.rows(*heads))


def n50(lengths):
    """The length at which half of all letters are reached, counted one by one."""
    reached = 0
    for length in sorted(lengths, reverse=True):
        reached += length
        if 2 * reached >= sum(lengths):
            return length
    return None


# --- what all pages have ----------------------------------------------------------------------------------------------


def test_a_page_allows_no_script_and_no_network(reported, proteins, tmp_path):
    page, _ = reported("p.fa")
    assert {"charset": "utf-8"} in page.metas
    [policy] = [meta["content"] for meta in page.metas if meta.get("http-equiv") == "Content-Security-Policy"]
    text = (tmp_path / "report.html").read_text()
    style = re.search("<style>(.*?)</style>", text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert "prefers-color-scheme: dark" in style
    assert "@media print" in style
    assert "url(" not in style
    assert not re.search(r"https?:|@import", text)


def test_every_chart_says_what_it_is_and_has_its_numbers_in_a_table(reported, proteins):
    page, _ = reported("p.fa")
    assert [sorted(chart) for chart in page.charts] == [["desc", "title"]]
    assert counted(page, "letters", "sequences") == len(proteins)


def test_a_page_replaces_a_page_and_nothing_else(cli, proteins, tmp_path, names):
    for _ in range(2):
        assert cli("p.fa", "-o", "report.html").returncode == 0
    (tmp_path / "thesis.doc").write_text("mine")
    for path, kept in (("thesis.doc", "mine"), ("p.fa", (tmp_path / "p.fa").read_text())):
        done = cli("p.fa", "-o", path)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"seekset: {path}: it is there, is no HTML page, and is not replaced; give another path\n"
        assert (tmp_path / path).read_text() == kept
    assert names() == ["p.fa", "p.fa.sidx", "report.html", "thesis.doc"]


def test_a_page_that_cannot_be_written_leaves_nothing(cli, proteins, names):
    done = cli("p.fa", "-o", "missing/report.html")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "missing" in done.stderr
    assert names() == ["p.fa", "p.fa.sidx"]


# --- indexes ----------------------------------------------------------------------------------------------------------


def test_an_index_is_told_by_its_lengths(reported, proteins):
    page, figures = reported("p.fa")
    assert (figures["kind"], figures["what"], figures["repeated_ids"]) == ("index", "p.fa", 0)
    assert page.facts["sequences"] == f"{len(proteins):,}"
    assert page.facts["letters"] == f"{sum(proteins):,}"
    assert page.facts["N50"] == f"{n50(proteins):,}"
    assert page.facts["median length"] == f"{np.median(proteins):g}"
    assert (page.facts["shortest"], page.facts["longest"]) == ("1", "4,000")
    longest = sorted(proteins, reverse=True)[:10]
    assert page.rows("the longest", "letters", "header") == [[f"p{n}", f"{n:,}", f"p{n} of {n}"] for n in longest]
    assert [row[0] for row in page.rows("the shortest", "letters", "header")] == [f"p{n}" for n in proteins[:10]]
    assert figures["quantiles"]["25 %"] == np.quantile(proteins, 0.25)
    found = figures["histogram"]
    for (start, end), count in zip(pairwise(found["edges"]), found["counts"], strict=True):
        assert count == sum(start <= length < end for length in proteins)


def test_a_file_its_index_and_sequence_indexes_have_the_same_figures(reported, proteins, tmp_path):
    _, of_file = reported("p.fa")
    SequenceIndex.create([tmp_path / "p.fa"], tmp_path / "all.sidx").close()
    SequenceIndex.create([tmp_path / "p.fa"], tmp_path / "all.json").close()
    for path in ("p.fa.sidx", "all.sidx", "all.json"):
        _, figures = reported(path)
        for name in ("kind", "lengths", "quantiles", "histogram"):
            assert figures[name] == of_file[name]
        assert [one["id"] for one in figures["longest"]] == [one["id"] for one in of_file["longest"]]


def test_an_index_of_many_files_tells_what_is_of_each(reported, write, tmp_path):
    files = [write(b">a\nMKV\n>b\nM\n", "1.fa"), write(b">a\nMKVLA\n", "2.fa")]
    SequenceIndex.create(files, tmp_path / "all.sidx").close()
    page, figures = reported("all.sidx")
    assert page.rows("file", "sequences", "letters") == [[str(files[1]), "1", "5"], [str(files[0]), "2", "4"]]
    assert figures["repeated_ids"] is None
    assert "records with a repeated id" not in page.facts


def test_repeated_ids_and_remarks_are_told(reported, write):
    write(b">a\nMKV\n>a\nMK\n>a\nM\n")
    page, figures = reported("x.fa")
    assert (page.facts["records with a repeated id"], figures["repeated_ids"]) == ("2", 2)


def test_long_ids_and_headers_are_cut_on_the_page_and_say_so(reported, write):
    write(b">" + b"i" * 5000 + b" " + b"h" * 5000 + b"\nMK\n", "long.fa")
    page, figures = reported("long.fa")
    assert page.rows("the longest", "letters")[0][0] == "i" * 299 + "…"
    assert [one["id"] for one in figures["longest"]] == ["i" * 5000]
    assert figures["longest"][0]["header"] == "i" * 299 + "…"
    write(b">a " + b"h" * 5000 + b"\nMK\n", "headed.fa")
    _, figures = reported("headed.fa")
    assert figures["longest"][0]["header"] == "a " + "h" * 297 + "…"


def test_hostile_ids_are_text(reported, write):
    write(HOSTILE.encode())
    page, figures = reported("x.fa")
    shown = [row[0] for row in page.rows("the longest", "letters", "header")]
    # What turns the text around, and what can't be seen, is spelled out.
    assert shown == [SCRIPT, "\\u202edcba\\x07", QUOTES]
    assert [one["id"] for one in figures["longest"]] == [SCRIPT, "\u202edcba\x07", QUOTES]
    assert f"{SCRIPT} {QUOTES} <img src=x onerror=alert(1)>" in "".join(page.texts)


def test_hostile_paths_are_text(tmp_path):
    path = tmp_path / f"{QUOTES}<b>\udcff.fa"
    path.write_bytes(b">a\nMK\n")
    with seekset.Fasta(path) as fasta:
        page = page_of(index_figures(fasta, str(path), [f"remark {SCRIPT}"]))
    texts = "".join(Page(page).texts)
    assert f"{QUOTES}<b>\\udcff.fa" in texts
    assert f"remark {SCRIPT}" in texts
    write_page(page, tmp_path / "report.html")


@pytest.mark.parametrize("data", [b"", b">a\n", b">a\n>b\n\n", b">a\nM\n"])
def test_small_indexes_have_pages(reported, write, data):
    write(data)
    page, figures = reported("x.fa")
    assert page.facts["sequences"] == str(data.count(b">"))
    assert sum(figures["histogram"]["counts"]) == data.count(b">")


# --- plans ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_a_plan_is_told_by_its_batches(reported, proteins, tmp_path, layout):
    index = SequenceIndex.create([tmp_path / "p.fa"])
    plan = Plan.create(index, max_tokens=4100, max_length=None, layout=layout)
    plan.save(tmp_path / "p.plan")
    page, figures = reported("p.plan")
    batches = [batch.lengths for batch in plan]
    tokens = [int((lengths + 2).sum()) for lengths in batches]
    room = sum(4100 if layout == "packed" else len(lengths) * (lengths.max() + 2) for lengths in batches)
    assert (figures["kind"], figures["room"], figures["letters"]) == ("plan", room, sum(proteins))
    assert page.facts["batches"] == f"{len(batches):,}"
    assert page.facts["tokens"] == f"{sum(tokens):,}"
    assert page.facts["efficiency: tokens"] == f"{100 * sum(tokens) / room:.2f} %"
    assert page.facts["efficiency: letters"] == f"{100 * sum(proteins) / room:.2f} %"
    assert page.facts["padding" if layout == "padded" else "room left"] == f"{room - sum(tokens):,} tokens"
    assert counted(page, "of the budget", "batches") == counted(page, "pieces", "batches") == len(batches)
    for one in figures["balance"]:
        of_ranks = [sum(tokens[rank :: one["world_size"]]) for rank in range(one["world_size"])]
        assert [share["tokens"] for share in one["shares"]] == of_ranks
        assert one["worst"] == pytest.approx(max(of_ranks) / np.mean(of_ranks))
    assert [one["world_size"] for one in figures["balance"]] == [1, 2, 4, 8]
    heads = ("batch", "tokens", "pieces", "letters of the longest piece")
    assert page.rows(*heads)[0] == ["0", f"{tokens[0]:,}", str(len(batches[0])), f"{batches[0].max():,}"]


def test_a_plan_without_batches_has_a_page(write):
    plan = Plan.create(seekset.Fasta(write(b"")))
    page = Page(page_of(plan_figures(plan, "nothing")))
    assert page.facts["batches"] == "0"
    json.dumps(as_json(plan_figures(plan, "nothing")))


# --- pools ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def shards(tmp_path):
    folders = [tmp_path / "a", tmp_path / f"b{SCRIPT.replace('/', '')}"]
    for folder, count in zip(folders, (6, 2), strict=True):
        folder.mkdir()
        for k in range(count):
            np.savez(folder / f"{k}.npz", value=np.arange(30, dtype="f4"))
    return folders


def test_a_pool_is_told_by_its_sources_and_how_well_it_mixes(reported, shards):
    page, figures = reported(*shards, "--ranges", "all", "0", "--pool-rows", 60, "--batch", 20)
    dataset = StreamingMixedShardDataset(
        shards, ["all", "0"], pool_size=60, refill_threshold=45, random_seed=0, enable_augmentation=False
    )
    plan = dataset.plan(quality_batch=20)
    found = figures["inspection"]
    assert (figures["kind"], found["order_digest"]) == ("pool", plan.digest)
    assert page.facts["rows of an epoch"] == str(plan.length) == "210"
    assert found["peak_bytes"] == plan.peak_bytes
    assert page.rows("source", "shards", "rows", "weight") == [
        [str(shards[0]), "6", "180", "85.714 %"],
        [str(shards[1]), "1", "30", "14.286 %"],
    ]
    heads, rows = plan.quality.table()
    assert page.rows(*heads) == rows
    assert np.sum(figures["schedule"], axis=0).tolist() == [180, 30]
    assert len(page.charts) == 2 + 4


def test_a_pool_without_rows_has_a_page(reported, shards):
    page, figures = reported(*shards, "--ranges", "none", "none")
    assert (page.facts["rows of an epoch"], figures["inspection"]["quality"]) == ("0", None)


# --- runs -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a run that ended well, and its sequences."""
    folder = tmp_path_factory.mktemp("finished")
    sequences = runs.write_fasta(folder / "p.fa", 60)
    done = runs.embed(folder / "p.fa", "-o", folder / "out", "--devices", "cpu,cpu", "--max-tokens", 256, "-q")
    assert done.returncode == 0, done.stderr
    return folder / "out", sequences


def test_a_run_is_told_by_its_events(reported, finished):
    folder, sequences = finished
    page, figures = reported(folder)
    assert (figures["kind"], page.facts["state"]) == ("run", "ended (complete)")
    assert (page.facts["sequences"], page.facts["done"], page.facts["failed"]) == ("60", "60", "0")
    tokens = sum(len(letters) for letters in sequences.values())
    assert figures["settings"]["model"] == "kmer"
    assert figures["settings"]["max_tokens"] == 256
    assert ["model", "kmer"] in page.rows("setting", "value")
    told = runs.events(folder, "chunk_finished")
    widths = np.diff(figures["edges"])
    for what in ("sequences", "tokens"):
        assert sum(widths @ one[what] for one in figures["speeds"]) == pytest.approx(sum(one[what] for one in told))
    assert figures["tokens"] == figures["done_tokens"] >= tokens
    [run] = figures["runs"]
    assert run["outcome"] == "complete"
    phases = [run[name] for name in ("starting", "loading", "computing", "finishing")]
    assert sum(phases) == pytest.approx(run["ended"] - run["began"])
    assert figures["unreadable_events"] == 0
    assert len(page.charts) == 2


def test_a_run_with_deaths_tells_when_and_whose(reported, tmp_path):
    runs.write_fasta(tmp_path / "p.fa", 30, poison=7)
    options = ["--model", "odd_encoders:Troubled", "--model-arg", "trouble=segv", "--devices", "cpu"]
    done = runs.embed(tmp_path / "p.fa", "-o", tmp_path / "out", *options, "-q")
    assert done.returncode == 1, done.stderr
    page, figures = reported("out")
    kinds = [one["kind"] for one in figures["moments"]]
    assert kinds.count("death") == len(runs.events(tmp_path / "out", "worker_died")) > 0
    assert kinds.count("restart") == len(runs.events(tmp_path / "out", "worker_started")) - 1
    assert (page.facts["done"], page.facts["failed"]) == ("29", "1")
    [reason] = figures["reasons"]
    assert page.rows("reason", "sequences", "ids") == [[reason, "1", "poison"]]
    assert "Deaths, restarts and other events" in page.sections


def event(kind, time, **facts):
    return json.dumps({"time": float(time), "event": kind, **facts})


def write_events(folder, *lines, end="\n"):
    folder.mkdir(exist_ok=True)
    (folder / "events.jsonl").write_text("\n".join(lines) + end)
    return folder


BEGUN = event("run_started", 100, pid=1, sequences=10, tokens=100, done=0, done_tokens=0)
WORKER = event("worker_started", 101, rank=0, device="cpu", pid=2)
CHUNK = event("chunk_begun", 102, rank=0), event("chunk_finished", 106, rank=0, sequences=4, tokens=40)


def test_torn_and_damaged_events_are_passed_over_and_counted(tmp_path):
    odd = [
        '{"time": NaN, "event": "chunk_begun", "rank": 0}',
        '{"time": 103.0, "event": "chunk_finished", "rank": 0, "sequences": 1, "tokens": 1' + "0" * 400 + "}",
        '{"time": 103.0, "event": "worker_died", "rank": 0}',
        "[" * 100_000,
    ]
    folder = write_events(tmp_path / "out", BEGUN, WORKER, *CHUNK, *odd, '{"time": 107.0, "event": "chunk_fin', end="")
    figures = run_figures(folder, "out")
    assert (figures.state, figures.done, figures.unreadable_events) == ("ended (killed)", 4, 4)
    assert [moment.text for moment in figures.moments] == ["worker 0 ?"]
    texts = "".join(Page(page_of(figures)).texts)
    assert "events.jsonl: lines that are no events, and are passed over: 4" in texts
    assert "the first is line 5" in texts
    assert "there is no manifest.json any more" in texts


def test_speed_is_spread_from_the_start_of_a_part_to_its_end(tmp_path):
    figures = run_figures(write_events(tmp_path / "out", BEGUN, WORKER, *CHUNK), "out")
    # Six seconds: nothing for two, then ten tokens a second.
    assert (figures.edges[0], figures.edges[-1]) == (0.0, 6.0)
    [speed] = figures.speeds
    assert speed.tokens == pytest.approx([0.0] * 20 + [10.0] * 40)
    assert speed.sequences == pytest.approx([0.0] * 20 + [1.0] * 40)


def test_the_time_between_runs_is_left_out(tmp_path):
    again = event("run_started", 9000, pid=1, sequences=10, tokens=100, done=4, done_tokens=40)
    damaged = event("chunk_damaged", 8999, path=SCRIPT, reason="torn")
    later = event("worker_started", 9001, rank=0, device="cpu", pid=3), event("worker_died", 9002, rank=0, how="left")
    ended = event("run_ended", 9004, outcome=SCRIPT, done=4, failed=0)
    folder = write_events(tmp_path / "out", BEGUN, WORKER, *CHUNK, damaged, again, *later, ended)
    figures = run_figures(folder, "out")
    assert [(run.began, run.ended, run.outcome) for run in figures.runs] == [
        (100.0, 106.0, "killed"),
        (9000.0, 9004.0, SCRIPT),
    ]
    assert [(moment.at, moment.kind) for moment in figures.moments] == [
        (6.0, "resumed"),
        (6.0, "damage"),
        (8.0, "death"),
    ]
    assert figures.edges[-1] == 10.0
    Page(page_of(figures))


def test_hostile_reasons_devices_and_ids_are_text(tmp_path):
    failed = event("sequence_failed", 103, piece=0, row=0, sequence_id=SCRIPT, reason=f"it is {QUOTES}{SCRIPT}")
    worker = event("worker_started", 101, rank=0, device=f"cpu{SCRIPT}", pid=2)
    died = event("worker_died", 104, rank=0, how=f"{{rank.__class__}} {SCRIPT}")
    folder = write_events(tmp_path / f"o{QUOTES}", BEGUN, worker, *CHUNK, failed, died)
    (folder / "manifest.json").write_text(SCRIPT)
    page = Page(page_of(run_figures(folder, str(folder))))
    assert page.rows("reason", "sequences", "ids") == [[f"it is {QUOTES}{SCRIPT}", "1", SCRIPT]]
    assert page.rows("time", "at work", "what", "in words")[0][3] == f"worker 0 {{rank.__class__}} {SCRIPT}"
    assert f"0: cpu{SCRIPT}" in page.texts


def test_a_run_under_way_has_a_page(tmp_path, reported):
    runs.write_fasta(tmp_path / "p.fa", 60)
    options = ["--model", "odd_encoders:Sums", "--model-arg", "seconds=0.3", "--max-tokens", "64", "--devices", "cpu"]
    process = runs.begin(tmp_path / "p.fa", "-o", tmp_path / "out", *options, "-q")
    try:
        runs.wait_for(lambda: runs.events(tmp_path / "out", "chunk_finished"))
        page, figures = reported("out")
    finally:
        process.kill()
        process.communicate()
    assert page.facts["state"] == "running"
    assert figures["runs"][-1]["outcome"] == "under way"
    assert 0 < figures["done"] < figures["sequences"] == 60
    page, figures = reported("out")
    assert page.facts["state"] == "ended (killed)"


# --- the command ------------------------------------------------------------------------------------------------------


def test_what_something_is_is_found_out(tmp_path, finished, shards, write):
    folder, _ = finished
    found = [content_of(path) for path in (folder, shards[0], folder / "plan.arrow", folder / "index.sidx")]
    assert found == ["run", "shards", "plan", "sequences"]
    seekset.Fasta(write(b">a\nMK\n")).close()
    assert [content_of(tmp_path / name) for name in ("x.fa", "x.fa.sidx")] == ["fasta", "fasta index"]


@pytest.mark.parametrize(
    "words, said",
    [
        (["notes.txt"], "notes.txt: it is of no known kind: expected a FASTA file or its .sidx, a sequence index"),
        (["empty"], "empty: it is of no known kind: expected a FASTA file"),
        (["cut.plan"], "cut.plan: it is of no known kind"),
        (["missing.fa"], "missing.fa: No such file or directory"),
        (["x.fa", "--kind", "plan"], "x.fa: "),
        (["x.fa", "--kind", "run"], "x.fa: expected the folder of a run, found no folder"),
        (["empty", "x.fa"], "empty: there is no shard in it"),
        (["alone.sidx"], "alone.sidx: expected the FASTA file that it is the index of beside it, found none"),
    ],
)
def test_what_is_of_no_known_kind_is_an_error_in_one_line(cli, tmp_path, write, names, words, said):
    write(b"only words\n", "notes.txt")
    write(b"ARROW1\0\0\xff\xff\xff\xff\xff\xff\xff\xff", "cut.plan")
    seekset.Fasta(write(b">a\nMK\n")).close()
    (tmp_path / "alone.sidx").write_bytes((tmp_path / "x.fa.sidx").read_bytes())
    (tmp_path / "empty").mkdir()
    before = names()
    done = cli(*words, "-o", "report.html")
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"seekset: {said}")
    assert names() == before


@pytest.mark.parametrize(
    "words, said",
    [
        (["x.fa"], "say where the page is to go with -o, or ask for --json"),
        (["x.fa", "y.fa", "--kind", "run", "--json"], "a report is of one run, but 2 paths were given"),
        (["x.fa", "--json", "--pool-rows", "7"], "--pool-rows is for pools, and this is a report of the kind index"),
    ],
)
def test_wrong_uses_are_told(cli, write, words, said):
    write(b">a\nMK\n")
    done = cli(*words)
    assert done.returncode == 2
    assert said in done.stderr
