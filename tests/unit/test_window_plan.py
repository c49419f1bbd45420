"""Which windows there are, and where each lies."""

import gzip
import pickle
import warnings

import numpy as np
import pytest

from seekset import FormatError, MismatchError, SeeksetWarning, StaleIndexError, UnknownIdError, WindowPlan
from seekset.bed import read_bed
from window_reference import fasta, spans

CONTIGS = {"chr1": "ACGTTGCAAC" * 4, "chr2": "GGATTTACAG", "tiny": "AC", "none": "", "chrM": "ACGNN" * 5}


@pytest.fixture
def genome(write):
    return write(fasta(CONTIGS))


def places(plan):
    return [(window.contig, window.start, window.end) for window in (plan[number] for number in range(len(plan)))]


@pytest.mark.parametrize("tail", ["drop", "anchor", "partial"])
@pytest.mark.parametrize("window, specials, stride", [(10, 0, 10), (12, 2, 7), (5, 1, 1), (50, 2, 20), (4, 0, 9)])
def test_windows_are_those_of_the_reference(genome, tail, window, specials, stride):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeeksetWarning)
        plan = WindowPlan(genome, window=window, specials=specials, stride=stride, tail=tail)
    rule = {"window": window, "content": window - specials, "stride": stride, "tail": tail}
    expected = [(name, *span) for name, letters in CONTIGS.items() for span in spans(len(letters), **rule)]
    assert places(plan) == expected
    unseen = sum(
        len(letters) - len({at for span in spans(len(letters), **rule) for at in range(*span)})
        for letters in CONTIGS.values()
    )
    assert plan.unseen == unseen


def test_edens_window_counts(write):
    """The numbers of `compute_num_windows`, of one contig each."""
    for length, count in [(1, 1), (8191, 1), (8192, 1), (16183, 1), (16184, 2)]:
        path = write(fasta({"c": "A" * length}), f"{length}.fa")
        plan = WindowPlan(path, window=8192, specials=2, stride=7992, tail="drop")
        assert len(plan) == count, length
    empty = write(b">c\n", "0.fa")
    assert len(WindowPlan(empty, window=8192, specials=2, stride=7992, tail="drop", min_length=0)) == 1


def test_contigs_of_many_files_follow_each_other(write):
    first, second = write(fasta({"a": "ACGT", "b": "ACGTAC"}), "1.fa"), write(fasta({"a": "GG"}), "2.fa")
    plan = WindowPlan([first, second], window=4)
    assert [(window.file, *window[1:4]) for window in map(plan.__getitem__, range(len(plan)))] == [
        (first, "a", 0, 4),
        (first, "b", 0, 4),
        (first, "b", 2, 6),
        (second, "a", 0, 2),
    ]
    with pytest.raises(IndexError, match="row 4 is out of range"):
        plan[4]


def test_a_stride_beyond_the_content_warns_with_what_is_unseen(write):
    with pytest.warns(SeeksetWarning, match=r"5 of 20 letters \(25.0 %\) are in no window: the stride of 15"):
        WindowPlan(write(fasta({"c": "ACGTA" * 4})), window=10, stride=15, tail="partial")


def test_short_contigs_have_windows_only_from_the_least_length_on(genome):
    assert {place[0] for place in places(WindowPlan(genome, window=10, min_length=11))} == {"chr1", "chrM"}
    with pytest.warns(SeeksetWarning, match="there are no windows"):
        assert len(WindowPlan(genome, window=10, min_length=1000)) == 0


def test_contigs_are_included_and_excluded_by_name_and_pattern(genome):
    def named(**options):
        return list(dict.fromkeys(place[0] for place in places(WindowPlan(genome, window=10, **options))))

    assert named(include=["chr2", "tiny"]) == ["chr2", "tiny"]
    assert named(include="chr*") == ["chr1", "chr2", "chrM"]
    assert named(include="chr*", exclude=["chr[0-9]"]) == ["chrM"]
    assert named(exclude="chrM") == ["chr1", "chr2", "tiny"]
    for wrong in ("chr3", "x*"):
        with pytest.raises(UnknownIdError, match="there is no record with the id"):
            named(include=[wrong])


def test_ids_that_look_like_patterns_are_ids(write):
    path = write(fasta({"HLA*01": "ACGT", "HLA*02": "ACGT"}))
    assert places(WindowPlan(path, window=4, include="HLA*01")) == [("HLA*01", 0, 4)]


def test_splits_by_hash_part_contigs_without_leakage(write):
    contigs = {f"c{number}": "ACGTA" for number in range(400)}
    first, second = write(fasta(contigs), "1.fa"), write(fasta(dict(reversed(contigs.items()))), "2.fa")
    splits = {"train": 0.8, "val": 0.1, "test": 0.1}
    found = [
        {name: {place[0] for place in places(WindowPlan(path, window=5, splits=splits, split=name))} for name in splits}
        for path in (first, second)
    ]
    assert found[0] == found[1], "an id is in one split, whatever file it is met in"
    assert sum(map(len, found[0].values())) == 400
    assert set.union(*found[0].values()) == set(contigs)
    assert 280 < len(found[0]["train"]) < 360


def test_splits_do_not_depend_on_the_order_of_their_names(write):
    path = write(fasta({f"c{number}": "ACGT" for number in range(60)}))
    one, other = {"train": 0.6, "val": 0.4}, {"val": 0.4, "train": 0.6}
    assert places(WindowPlan(path, window=4, splits=one, split="val")) == places(
        WindowPlan(path, window=4, splits=other, split="val")
    )


def test_splits_by_list(genome):
    splits = {"train": ["chr1", "tiny"], "val": ["chr2"]}
    assert {place[0] for place in places(WindowPlan(genome, window=10, splits=splits, split="val"))} == {"chr2"}
    with pytest.raises(MismatchError, match="split mismatch: 'tiny' is in 'a' and in 'b'"):
        WindowPlan(genome, window=10, splits={"a": ["tiny"], "b": ["t*"]}, split="a")
    with pytest.raises(MismatchError, match="there is no 'test' in 'train', 'val'"):
        WindowPlan(genome, window=10, splits=splits, split="test")
    with pytest.raises(ValueError, match="together"):
        WindowPlan(genome, window=10, splits=splits)
    with pytest.raises(MismatchError, match="more than 1"):
        WindowPlan(genome, window=10, splits={"a": 0.9, "b": 0.2}, split="a")


def test_what_can_not_be_meant_is_refused(genome):
    for options, words in [
        ({"window": 2, "specials": 2}, "no room for letters beside 2 special"),
        ({"window": 0}, "window must be at least 1"),
        ({"stride": 0}, "stride must be at least 1"),
        ({"tail": "cut"}, 'tail must be "drop", "anchor" or "partial", not "cut"'),
        ({"region_width": 5}, "give a BED file"),
        ({"min_length": -1}, "min_length must be at least 0"),
    ]:
        with pytest.raises(ValueError, match=words):
            WindowPlan(genome, **options)
    with pytest.raises(TypeError, match="window must be a whole number, not float"):
        WindowPlan(genome, window=8192.0)
    with pytest.raises(FileNotFoundError):
        WindowPlan(genome.with_name("missing.fa"))
    with pytest.raises(ValueError, match="none was given"):
        WindowPlan([])


def test_a_plan_pickles_as_its_paths_and_notices_changed_files(genome):
    plan = WindowPlan(genome, window=10)
    copy = pickle.loads(pickle.dumps(plan))
    assert places(copy) == places(plan)
    assert copy.fingerprint == plan.fingerprint
    pickled = pickle.dumps(plan)
    genome.write_bytes(fasta({**CONTIGS, "chr1": "A" * 50}))
    with pytest.raises(StaleIndexError, match="has changed since the windows were counted"):
        pickle.loads(pickled)[0]


def test_fingerprints_tell_rules_and_files_apart(genome, write):
    plans = [
        WindowPlan(genome, window=10),
        WindowPlan(genome, window=10, stride=5),
        WindowPlan(genome, window=10, tail="partial"),
        WindowPlan(genome, window=10, include="chr1"),
        WindowPlan(write(fasta({"chr1": "ACGT" * 10}), "other.fa"), window=10),
    ]
    assert len({plan.fingerprint for plan in plans}) == len(plans)


def test_short_windows_are_those_that_are_not_full(genome):
    plan = WindowPlan(genome, window=10, tail="partial", stride=7)
    numbers, letters = plan.short()
    whole = {number: end - start for number, (_, start, end) in enumerate(places(plan))}
    assert dict(zip(numbers.tolist(), letters.tolist(), strict=True)) == {k: n for k, n in whole.items() if n < 10}


# --- regions ---


def test_regions_are_cut_into_windows_of_their_own(genome, write):
    bed = write(b"#comment\ntrack name=x\n\nchr1\t3\t8\tpeak\t0\t-\nchr2\t0\t10\nchrM\t5\t20\tx\t.\t+\r\n", "peaks.bed")
    plan = WindowPlan(genome, window=10, regions=bed)
    assert [plan[number][1:] for number in range(len(plan))] == [
        ("chr1", 3, 8, True),
        ("chr2", 0, 10, False),
        ("chrM", 5, 15, False),
        ("chrM", 10, 20, False),
    ]


def test_regions_of_a_width_lie_around_the_centre_and_inside_the_contig(genome, write):
    bed = write(b"chr1\t10\t12\nchr1\t0\t2\nchr1\t38\t40\ntiny\t0\t1\nchr1\t20\t29\n", "peaks.bed")
    plan = WindowPlan(genome, window=8, regions=bed, region_width=8)
    assert places(plan) == [("chr1", 7, 15), ("chr1", 0, 8), ("chr1", 32, 40), ("tiny", 0, 2), ("chr1", 21, 29)]


def test_regions_follow_the_selection(genome, write):
    bed = write(b"chr1\t0\t4\nchr2\t0\t4\ntiny\t0\t2\n", "peaks.bed")
    assert places(WindowPlan(genome, window=4, regions=bed, exclude="chr2")) == [("chr1", 0, 4), ("tiny", 0, 2)]
    splits = {"a": 0.5, "b": 0.5}
    parts = [places(WindowPlan(genome, window=4, regions=bed, splits=splits, split=name)) for name in splits]
    assert sorted(parts[0] + parts[1]) == [("chr1", 0, 4), ("chr2", 0, 4), ("tiny", 0, 2)]
    contigs = [{place[0] for place in places(WindowPlan(genome, window=4, splits=splits, split=n))} for n in splits]
    assert all({place[0] for place in part} <= contigs[k] for k, part in enumerate(parts))


@pytest.mark.parametrize(
    "text, words",
    [
        (b"chr1\t5\n", "line 1: expected contig, start and end, found 'chr1"),
        (b"chr1\tx\t9\n", "line 1: expected contig, start and end"),
        (b"chr1\t0\t4\nchr1\t9\t9\n", "line 2: expected 0 <= start < end, found chr1 9 9"),
        (b"chr1\t-1\t4\n", "expected 0 <= start < end"),
        (b"chr1\t0\t41\n", "line 1: it ends at 41, but 'chr1' has 40 letters"),
        (b"chr7\t0\t4\n", "there is no contig 'chr7'"),
        (b"chr1\t0\t4\tx\t0\t?\n", r"expected a strand of \+, - or ., found '\?'"),
        (b"\xff\xfe\t0\t4\n", "expected contig, start and end"),
        (b"\x1f\x8b\x08\x00broken", "expected a whole gzip file"),
    ],
)
def test_bad_regions_are_named_by_line(genome, write, text, words):
    bed = write(text, "bad.bed")
    with pytest.raises(FormatError, match=words) as raised:
        WindowPlan(genome, window=4, regions=bed)
    assert str(bed) in str(raised.value)


def test_a_contig_that_several_files_have_can_not_have_regions(genome, write):
    other, bed = write(fasta({"chr1": "ACGT"}), "y.fa"), write(b"chr1\t0\t4\n", "r.bed")
    with pytest.raises(MismatchError, match="regions need contigs that are in one file"):
        WindowPlan([genome, other], window=4, regions=bed)


def test_bed_files_may_be_gzipped_and_parted_by_blanks(write):
    plain = b"chr1 1 5\n"
    assert list(read_bed(write(gzip.compress(plain), "a.bed.gz"))) == list(read_bed(write(plain, "a.bed")))


def test_windows_of_very_many_contigs_take_eight_bytes_each(write):
    path = write(b"".join(b">%d\nACGTACGT\n" % number for number in range(50_000)))
    plan = WindowPlan(path, window=4, stride=2)
    assert plan.ends.nbytes == 8 * 50_000
    assert len(plan) == 3 * 50_000
    numbers = np.arange(0, len(plan), 997)
    spans = plan.spans(numbers)
    assert (spans.contigs == numbers // 3).all()
    assert (spans.starts == numbers % 3 * 2).all()


def test_all_contigs_of_a_repeated_id_are_meant(write):
    path = write(b">a\nACGT\n>b\nACGT\n>a\nGGGG\n")
    assert places(WindowPlan(path, window=4, exclude=["a"])) == [("b", 0, 4)]
    assert places(WindowPlan(path, window=4, include=["a"])) == [("a", 0, 4), ("a", 0, 4)]
    with pytest.raises(MismatchError, match="regions need contigs that are in one file"):
        WindowPlan(path, window=4, regions=write(b"a\t0\t4\n", "r.bed"))


def test_contigs_whose_names_begin_like_a_header_have_regions(write):
    path, bed = write(fasta({"track1": "ACGT", "browser": "AC"})), write(b"track name=x\ntrack1\t0\t4\n", "r.bed")
    assert places(WindowPlan(path, window=4, regions=bed)) == [("track1", 0, 4)]


def test_splits_are_of_one_kind_and_may_be_used_up(write):
    path = write(fasta({"a": "ACGT", "b": "ACGT"}))
    with pytest.raises(MismatchError, match="all shares, or all lists"):
        WindowPlan(path, window=4, splits={"train": 0.9, "val": ["a"]}, split="val")
    once = WindowPlan(path, window=4, splits={"t": (name for name in "b"), "v": ["a"]}, split="t")
    again = WindowPlan(path, window=4, splits={"t": ["b"], "v": ["a"]}, split="t")
    assert places(once) == [("b", 0, 4)]
    assert once.fingerprint == again.fingerprint


def test_windows_that_no_memory_holds_are_refused(write):
    with pytest.raises(ValueError, match="must be at most"):
        WindowPlan(write(fasta({"a": "ACGT"})), window=2**62)
