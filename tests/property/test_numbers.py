"""Numbers for people: near what they are of, and never as many as make the next unit."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seekset.numbers import amount, brief, duration, octets

SIZES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
# Numbers of all sizes, and those that are rounded to the next unit.
NUMBERS = st.one_of(
    st.floats(0.001, 9.9e20),
    st.integers(0, 10**20),
    st.builds(lambda p, f: 10**p * f, st.integers(0, 20), st.floats(0.99, 1.01)),
)
SECONDS = st.one_of(st.floats(0.001, 1e6), st.floats(59, 61), st.floats(3590, 3610), st.floats(7190, 7210))


@given(NUMBERS)
def test_a_prefix_stands_before_one_to_a_thousand(number):
    for text in (brief(number), amount(number, "B").removesuffix("B").replace(" ", "")):
        digits, prefix = re.fullmatch(r"([0-9.]+)([kMGTPE]?)", text).groups()
        assert float(digits) * SIZES[prefix] == pytest.approx(number, rel=0.0051)
        assert float(digits) < 1000
        assert not prefix or float(digits) >= 1
    assert brief(-number) == f"-{brief(number)}" or number == 0


@given(SECONDS)
def test_times_are_near_and_never_have_sixty_of_a_unit(seconds):
    found = re.findall(r"([0-9.]+) (s|min|h)", duration(seconds))
    assert " ".join(map(" ".join, found)) == duration(seconds)
    worth = {"s": 1, "min": 60, "h": 3600}
    told = sum(float(number) * worth[unit] for number, unit in found)
    last = worth[found[-1][1]] if len(found) > 1 else 0.01 * seconds
    assert abs(told - seconds) <= 0.5 * last + 1e-9
    assert all(float(number) < 60 for number, unit in found if unit != "h")


def test_units():
    assert [amount(number, "records/s") for number in (0, 999.4, 999.6, 5e12)] == [
        "0 records/s",
        "999 records/s",
        "1 k records/s",
        "5 T records/s",
    ]
    assert [octets(number) for number in (999, 999_499, 999_500, 10**12)] == ["999 B", "999 kB", "1 MB", "1 TB"]
    assert (brief(float("inf")), brief(float("nan"))) == ("inf", "nan")
