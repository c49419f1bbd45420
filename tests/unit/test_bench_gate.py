"""The benchmarks' own logic: what counts as a regression, what a run replaces, and what is cold."""

import json
import math
import mmap
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benches" / "python"))

import cache
import gate
import growth
import picture
import report
import results
import suites
from contest import COLD, Row, Table, Times
from gate import Change, Ratio, compare


def ratio(value, low=None, high=None, contest="gather", peer="pysam"):
    return Ratio(contest, "Warm page cache", "a title", peer, value, low or value, high or value)


def verdict(then, now):
    return Change(then, now).verdict


# --- the gate ---------------------------------------------------------------------------------------------------------


def test_a_ratio_without_spread_may_fall_by_a_tenth():
    assert verdict(ratio(100), ratio(90.1)) == "same"
    assert verdict(ratio(100), ratio(89.9)) == "fell"


def test_a_ratio_that_rises_as_much_is_shown_and_is_no_fault():
    assert verdict(ratio(90), ratio(100.1)) == "rose"
    assert not Change(ratio(90), ratio(100.1)).is_bad


def test_what_is_allowed_follows_from_the_spreads_of_both():
    then, now = ratio(100, 90, 110), ratio(80, 75, 85)
    by_chance = 3 * 0.67 / 1.69 * math.hypot(math.log(110 / 90), math.log(85 / 75))
    assert Change(then, now).allowance == pytest.approx(math.exp(-by_chance))
    assert verdict(then, now) == "same"
    assert verdict(ratio(100), ratio(80)) == "fell"


def test_half_of_what_it_was_has_fallen_however_noisy():
    assert verdict(ratio(100, 10, 1000), ratio(51, 5, 500)) == "same"
    assert verdict(ratio(100, 10, 1000), ratio(49, 5, 500)) == "fell"


def test_new_ratios_pass_and_ratios_that_are_gone_do_not():
    changes = compare([ratio(10, peer="pyfaidx")], [ratio(10)], ["gather"])
    assert [(change.verdict, change.is_bad) for change in changes] == [("new", False), ("gone", True)]


def test_recorded_contests_that_were_not_held_are_not_missed():
    changes = compare([ratio(10), ratio(5, contest="fetch")], [ratio(10)], ["gather"])
    assert [change.verdict for change in changes] == ["same"]


def test_of_what_was_held_twice_the_better_counts():
    first = compare([ratio(100)], [ratio(50)], ["gather"])
    assert [change.verdict for change in gate._better(first, compare([ratio(100)], [ratio(97)], ["gather"]))] == [
        "same"
    ]
    assert [change.verdict for change in gate._better(first, compare([ratio(100)], [ratio(40)], ["gather"]))] == [
        "fell"
    ]


def test_other_ways_of_using_seekset_have_no_say_without_a_goal():
    own = Times([1.0])
    rows = [Row("t", peer, Times([2.0]), own, goal) for peer, goal in (("pysam", None), ("seekset, 1 thread", None))]
    rows.append(Row("t", "seekset, 1 worker", Times([2.0]), own, 1.85))
    assert [found.peer for found in gate.ratios("embed", rows)] == ["pysam", "seekset, 1 worker"]


def test_recording_some_contests_keeps_the_others(tmp_path):
    path, now = tmp_path / "gate.json", {"date": "today", "commit": "c", "machine": {"cores": 2}}
    gate.record(path, [ratio(10), ratio(5, contest="fetch")], ["gather", "fetch"], now)
    gate.record(path, [ratio(7, 6, 8)], ["gather"], now)
    assert gate.read(path) == ([ratio(5, contest="fetch"), ratio(7, 6, 8)], {"cores": 2})


def test_recording_keeps_what_could_not_be_measured(tmp_path, capsys):
    def not_cold():
        raise cache.NotColdError("not cold: 3 of the 9 pages of data stay in the page cache")

    path, now = tmp_path / "gate.json", {"date": "today", "commit": "c", "machine": {"cores": 2}}
    gate.record(path, [ratio(10), ratio(5, contest="gather-cold")], ["gather", "gather-cold"], now)
    row = Row("a title", "pysam", Times([7.0]), Times([1.0]))
    found, measured = gate.held([("gather", lambda: [row]), ("gather-cold", not_cold)])
    assert measured == ["gather"]
    assert "gather-cold: not measured: not cold" in capsys.readouterr().err
    gate.record(path, found, measured, now)
    assert gate.read(path)[0] == [ratio(7)._replace(section=row.section), ratio(5, contest="gather-cold")]


def test_contests_of_the_gate_are_there():
    assert suites.unknown(gate.DEFAULT) is None
    assert "nothing" in suites.unknown(["nothing", "gather"])


# --- spreads and results ----------------------------------------------------------------------------------------------


def test_the_spread_of_a_ratio_is_that_of_repeats_which_took_turns():
    # All slowed down together: times differ by a half, ratios do not.
    row = Row("t", "pysam", Times([10.0, 15.0, 12.0]), Times([1.0, 1.5, 1.2]))
    assert row.spread == pytest.approx((10, 10))
    # A peer that was held once is compared with all of seekset's repeats.
    assert Row("t", "slow", Times([10.0]), Times([1.0, 2.0, 4.0])).spread == (2.5, 10)


def run_of(date):
    machine = {"cpu": "x", "cores": 2, "memory_gib": 24, "system": "Linux"}
    return {"date": date, "commit": "c", "remark": None, "machine": machine, "load": None, "versions": {"seekset": "1"}}


NOTHING = {"runs": {}, "contests": {}, "growth": None}
OLD, NEW = (Row("Gather", "pysam", Times([seconds]), Times([1.0]), goal=20) for seconds in (10.0, 30.0))


def test_a_run_replaces_its_own_contests_only():
    both = results.with_contests(NOTHING, run_of("monday"), {"gather": [OLD], "fetch": [OLD]})
    found = results.with_contests(both, run_of("tuesday"), {"gather": [NEW]})
    assert [found["contests"][name]["run"] for name in ("gather", "fetch")] == ["tuesday c", "monday c"]
    assert found["contests"]["fetch"] == both["contests"]["fetch"]
    row = found["contests"]["gather"]["rows"][0]
    assert (row["ratio"], row["goal"], row["reached"], row["cache"]) == (30, 20, True, "warm")
    assert list(results.with_contests(found, run_of("wednesday"), {"fetch": [NEW]})["runs"]) == [
        "tuesday c",
        "wednesday c",
    ]


def test_a_contest_that_could_not_be_cold_keeps_the_figures_it_has():
    found = results.with_contests(NOTHING, run_of("monday"), {"gather-cold": [OLD._replace(section=COLD)]})
    assert found["contests"]["gather-cold"]["rows"][0]["cache"] == "cold"
    assert results.without_figures(found, run_of("tuesday"), "gather-cold", "not cold") == found
    told = results.without_figures(NOTHING, run_of("tuesday"), "gather-cold", "not cold")
    assert told["contests"]["gather-cold"]["note"] == "Not measured: not cold."


def test_what_is_saved_is_loaded_and_makes_a_page_and_a_picture(tmp_path):
    table = Table("Orders", ("order", "shards"), [("seekset", "1.5")])
    found = results.with_contests(
        NOTHING, run_of("monday"), {"fetch": [OLD._replace(peer="pyfaidx")], "pool-quality": [table]}
    )
    point = {"size": 10, "units": 10, "seconds": {"median": 1e-3, "low": 1e-3, "high": 1e-3, "repeats": 3}}
    curve = {"name": "index", "title": "Index", "unit": "sequence", "exponent": 1.0, "points": [point]}
    found = results.with_growth(found, run_of("tuesday"), [curve])
    path = results.save(found, tmp_path / "results.json")
    assert results.load(path) == found == json.loads(path.read_text())
    page = report.write(found, tmp_path / "results.md").read_text()
    assert "| Gather | pyfaidx | 10 s | 1 s | 10.0x | 20x | no | 1 |" in page
    assert "| seekset | 1.5 |" in page
    assert "| Index, by sequence | 10 | 1 ms (1-1) | 100 µs | 1.00 |" in page
    drawn = picture.draw(picture.rows_of(found))
    assert drawn == picture.draw(picture.rows_of(found))
    assert ">10.0x</text>" in drawn
    assert growth.draw([curve]).count("<circle") == 2


def test_what_is_rounded_to_the_next_unit_is_told_in_it():
    assert [report.amount({"median": seconds}, "time") for seconds in (0.9994, 0.9996)] == ["999 ms", "1 s"]


def test_recorded_results_make_the_page_and_the_picture_that_are_kept(tmp_path):
    found = results.load()
    assert report.write(found, tmp_path / "page.md").read_text() == report.PAGE.read_text()
    assert picture.write(found, tmp_path / "picture.svg").read_text() == picture.PICTURE.read_text()
    assert suites.unknown(found["contests"]) is None


def test_exponents_are_slopes_of_logarithms():
    assert growth.slope([10, 100, 1000], [1, 10, 100]) == pytest.approx(1)
    assert growth.slope([10, 100, 1000], [2, 2, 2]) == pytest.approx(0)


# --- the page cache ---------------------------------------------------------------------------------------------------


PAGES = (1 << 20) // mmap.PAGESIZE


def test_pages_that_were_read_are_seen(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(bytes(1 << 20))
    assert path.read_bytes()
    assert cache.resident(path) == (PAGES, PAGES)
    assert not cache.is_cold(path)
    (tmp_path / "empty").touch()
    assert cache.resident(tmp_path / "empty") == (0, 0)


def test_a_file_that_is_mapped_and_touched_is_not_cold(tmp_path, monkeypatch):
    path = tmp_path / "data"
    path.write_bytes(bytes(1 << 20))
    monkeypatch.setattr(cache, "_TRIES", 2)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE]) == 0
        with pytest.raises(cache.NotColdError, match=f"{PAGES} of the {PAGES} pages of data stay"):
            cache.make_cold([tmp_path])
