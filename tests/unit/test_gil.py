"""Other Python threads run while seekset scans and gathers, and Ctrl-C stops a scan."""

import json

import pytest

import seekset

# Threads never take turns by themselves here, so that another thread only runs while a call has let go of the GIL.
TICKS = """
    import json, sys, threading, time
    import numpy as np
    import seekset
    from seekset import _core

    sys.setswitchinterval(1000)
    seekset.set_threads(int(sys.argv[1]))
    ticks = 0

    def tick():
        global ticks
        while True:
            ticks += 1
            time.sleep(0.0001)  # lets go of the GIL

    def ticks_during(work, most=1000):
        before = ticks
        for _ in range(most):  # a loaded machine may give the other thread no turn at first
            work()
            if ticks > before:
                break
        return ticks - before

    records = open("x.tfrecord", "rb").read()
    threading.Thread(target=tick, daemon=True).start()
    fa = seekset.Fasta("x.fa", index="first.sidx")
    stream = _core.FastaStream("x.fa")
    tf = seekset.TFRecordFile("x.tfrecord", verify="full")
    sequences = seekset.SequenceIndex.create(["x.fa"])
    ids, ends = np.arange(3_000_000) % 4, np.array([0, 3_000_000], dtype=np.int32)
    payloads = [seekset.encode_example({"x": np.arange(1000)})] * 1000
    works = {
        "scan": lambda: seekset.Fasta("x.fa"),
        "faidx": lambda: seekset.faidx("x.fa"),
        "gather": lambda: fa.gather([0, 0, 0]),
        "tokens": lambda: fa.gather([0], tokens="esm", dtype="int64"),
        "windows": lambda: fa.gather_windows([0] * 30, np.arange(30), 1_000_000),
        "fetch": lambda: fa.fetch("a"),
        "fetch by row": lambda: fa.fetch(0),
        "fetch_many": lambda: fa.fetch_many([0]),
        "sequence": lambda: fa["a"].sequence,
        "reverse complement": lambda: fa["a"].reverse_complement(),
        "stream": lambda: stream.records(0, 10),
        "a sequence index": lambda: seekset.SequenceIndex.create(["x.fa"], force=True),
        "packed": lambda: sequences.packed([0, 0], "esm"),
        "padded": lambda: sequences.padded([0, 0], "esm"),
        "k-mers": lambda: _core.kmer_frequencies(ids, ends, 4, 2),
        "letters of sequences": lambda: sequences.fetch_many([0]),
        "index of records": lambda: seekset.create_tfrecord_index("x.tfrecord", "x.idx", verify="full"),
        "index of bytes": lambda: seekset.index_tfrecord_bytes(records, verify="full"),
        "records": lambda: tf.get_many(range(len(tf))),
        "a record": lambda: tf[0],
        "examples": lambda: seekset.decode_examples(payloads, {"x": ("int64", (1000,))}),
    }
    held = ticks_during(lambda: bytes(50_000_000).count(b"x"), most=20)
    print(json.dumps({"nothing of ours": held, **{name: ticks_during(work) for name, work in works.items()}}))
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_another_thread_runs_while_seekset_works(write, run, tmp_path, threads):
    write(b">a\n" + (b"ACGTTGCAGA" * 6 + b"\n") * 200_000)
    with seekset.TFRecordWriter(tmp_path / "x.tfrecord", index=False) as writer:
        for _ in range(4):
            writer.write(bytes(10_000_000))
    ticks = json.loads(run(TICKS, threads))
    # That nothing runs during a call that holds the GIL shows that the others would be noticed.
    assert [work for work, count in ticks.items() if count == 0] == ["nothing of ours"]


# --- Ctrl-C ---------------------------------------------------------------------------------------------------------

INTERRUPTED = """
    import signal, sys, seekset
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
    seekset.set_threads(int(sys.argv[2]))
    try:
        getattr(seekset, sys.argv[1])("x.fa")
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.parametrize("work, threads", [("Fasta", 1), ("Fasta", 2), ("faidx", 2)])
def test_ctrl_c_stops_a_scan_and_nothing_is_left(write, program, names, interrupted, work, threads):
    write(b">x\nA\n" * 12_000_000)
    assert interrupted(program(INTERRUPTED, work, threads)) == (("interrupted\n", ""), 0)
    assert names() == ["program.py", "x.fa"]
