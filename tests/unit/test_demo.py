"""The demo, run as people run it but with less data: every step comes to its end and leaves what it says."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from seekset.demo.packing import picture
from seekset.plan import Plan

SMALL = """
    import sys
    from pathlib import Path
    from seekset.demo import run
    from seekset.demo.folder import claim
    from seekset.demo.tour import Sizes
    folder = Path("tour")
    claim(folder)
    sizes = Sizes(
        proteins=12_000, contigs=2, contig_letters=6_000_000, records=1024, shard_rows=40, embedded=8_000
    )
    run(folder, sizes)
"""


@pytest.fixture(scope="module")
def toured(tmp_path_factory):
    """What the demo printed, and the folder it was run in."""
    folder = tmp_path_factory.mktemp("demo")
    words = [sys.executable, "-c", textwrap.dedent(SMALL)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, folder


def test_every_step_is_run(toured):
    printed, _ = toured
    assert re.findall(r"^(\d)\. ", printed, re.MULTILINE) == list("123456789")
    assert "left out" not in printed


def test_a_worker_is_killed_and_nothing_is_lost(toured):
    printed, _ = toured
    # Either worker may be the first to start.
    killed = re.search(r"killed worker ([01])", printed)[1]
    assert f"worker_died: rank {killed}, how was ended by SIGKILL" in printed
    assert "(8000, 400) float32, every sequence once" in printed
    assert "ended (complete): 8000 of 8000 sequences" in printed


def test_dali_windows_and_pool_give_what_they_should(toured):
    printed, _ = toured
    assert "x (256, 64); 1,024 records in order" in printed
    assert "saved and resumed after 20 batches: the next one is the same" in printed
    assert "960 rows, each of them once; the first batch has 48 of self-play and 16 of human" in printed


def test_results_lie_where_it_says(toured):
    printed, folder = toured
    listed = [line.split()[0] for line in printed.partition("Where the results lie\n")[2].splitlines()[:-1]]
    assert {"tour/plan.png", "tour/mixing.png", "tour/embedded/embeddings.h5", "tour/examples.tfrecord.idx"} <= set(
        listed
    )
    assert all((folder / Path(path)).exists() for path in listed)
    assert (folder / "tour" / "plan.png").read_bytes().startswith(b"\x89PNG")


def test_the_picture_of_a_plan_shows_every_second_sequence_and_the_room_left(opened):
    plan = Plan.create(opened(b">a\n" + b"M" * 8 + b"\n>b\n" + b"M" * 4 + b"\n>c\nMMMM\n"), tokens=None, max_tokens=20)
    assert picture(plan, (0,), width=10) == ["batch 0  |████▒▒██··|  3 sequences"]


def test_without_packages_the_demo_says_what_is_left_out(run):
    printed = run(
        """
        import importlib.util
        from pathlib import Path
        import seekset.demo
        from seekset.demo import windows
        from seekset.demo.tour import Sizes
        found = importlib.util.find_spec
        import seekset.extras
        seekset.extras.find_spec = lambda name: None if name == "torch" else found(name)
        seekset.demo._STEPS = (("Windows", windows.show),)
        seekset.demo.run(Path("."), Sizes())
        """
    )
    assert "left out: the dataset of windows needs torch: pip install 'seekset[torch]'" in printed
