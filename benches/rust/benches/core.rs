//! The stages of seekset's core by themselves, each on data made here, on one thread: `make bench-micro`.
//!
//! What each stage gives is asserted once, before it is timed. Against peers, see `benches/python`.

use std::hint::black_box;
use std::io::{Read, Write};
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use seekset_core::fasta::{Fasta, OpenOptions};
use seekset_core::gather::{Kernel, Raw, TokenTable, Translate, layout};
use seekset_core::io::deflate::{Deflate, Inflating, Kind};
use seekset_core::io::zidx::{Builder, Starts, Zidx};
use seekset_core::io::{Fingerprint, Scratch, Source, Spills, Store, threads};
use seekset_core::plan::packing::{Layout, Overflow, Rules};
use seekset_core::plan::{Permutation, Request, pack};
use seekset_core::pool::{pack_rows, packed};
use seekset_core::scan::fasta::{Record, Rows, Sink, scan};
use seekset_core::scan::tfrecord::{frame, walk};
use seekset_core::watch::Unwatched;
use seekset_core::{Result, Verify};

const RECORDS: usize = 10_000;
const WRAP: usize = 60;
const RESIDUES: &[u8; 20] = b"ARNDCQEGHILKMFPSTWYV";

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, end: usize) -> usize {
        self.next() as usize % end
    }
}

/// Proteins of 50 to 650 residues, in lines of 60.
fn fasta_bytes() -> Vec<u8> {
    let (mut numbers, mut bytes) = (Numbers(1), Vec::new());
    for record in 0..RECORDS {
        bytes.extend_from_slice(format!(">seq_{record} a protein\n").as_bytes());
        let letters: Vec<u8> = (0..50 + numbers.below(600)).map(|_| RESIDUES[numbers.below(20)]).collect();
        for line in letters.chunks(WRAP) {
            bytes.extend_from_slice(line);
            bytes.push(b'\n');
        }
    }
    bytes
}

// --- scan -------------------------------------------------------------------------------------------------------------

#[derive(Default)]
struct Counted(usize);

impl Rows for Counted {
    fn push(&mut self, record: &Record, _: &[u8]) {
        black_box(record);
        self.0 += 1;
    }
}

impl Sink for Counted {
    type Rows = Self;

    fn take(&mut self, rows: Self) -> Result<()> {
        self.0 += rows.0;
        Ok(())
    }
}

fn scans(c: &mut Criterion) {
    let mut group = c.benchmark_group("scan");
    let bytes = fasta_bytes();
    let fasta = || {
        let mut counted = Counted::default();
        scan(black_box(&bytes), 1, &Unwatched, &mut counted).expect("a FASTA file");
        counted.0
    };
    assert_eq!(fasta(), RECORDS);
    group.throughput(Throughput::Bytes(bytes.len() as u64)).bench_function("FASTA", |b| b.iter(fasta));

    let record = |number: usize| {
        let payload = vec![b'x'; 200 + number % 200];
        [&frame::header(payload.len() as u64)[..], &payload, &frame::checksum(&payload).to_le_bytes()].concat()
    };
    let bytes: Vec<u8> = (0..RECORDS).flat_map(record).collect();
    for (name, verify) in [("lengths", Verify::Lengths), ("payloads", Verify::Full)] {
        let walked = || walk(black_box(&bytes), verify, &Unwatched, &mut |_| Ok(())).expect("a TFRecord file");
        assert_eq!(walked(), RECORDS as u64);
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(BenchmarkId::new("TFRecord", name), |b| b.iter(walked));
    }
    group.finish();
}

// --- gather -----------------------------------------------------------------------------------------------------------

fn translation(c: &mut Criterion) {
    let letters: Vec<u8> = (0..1 << 16).map(|k| RESIDUES[k % 20]).collect();
    let table = TokenTable::named("esm").expect("a table that is there");
    let mut group = c.benchmark_group("translate");
    group.throughput(Throughput::Elements(letters.len() as u64));
    let narrow = Translate::<u8>::new(&table).expect("ids that are bytes");
    let mut out = vec![0; letters.len()];
    group.bench_function("to u8", |b| b.iter(|| narrow.write(black_box(&letters), &mut out).expect("letters")));
    assert!(out.iter().zip(&letters).all(|(&id, &letter)| Some(i32::from(id)) == table.id(letter)));
    let wide = Translate::<i64>::new(&table).expect("ids");
    let mut out = vec![0; letters.len()];
    group.bench_function("to i64", |b| b.iter(|| wide.write(black_box(&letters), &mut out).expect("letters")));
    group.finish();
}

fn gathered<K: Kernel>(fasta: &Fasta, requests: &[Request], kernel: &K, out: &mut Vec<K::Out>) -> Result<()>
where
    K::Out: Copy + Default,
{
    let batch = fasta.plan(requests)?;
    out.resize(batch.letters().iter().sum::<u64>() as usize, K::Out::default());
    let ends = layout::Ends { prefix: &[], suffix: &[] };
    fasta.gather(&batch, kernel, layout::ragged(out, batch.letters(), 1, ends)?)
}

fn gathers(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("proteins.fa");
    std::fs::write(&path, fasta_bytes()).expect("room for a file");
    let fasta = Fasta::open(&path, &OpenOptions::default()).expect("a FASTA file");
    let mut numbers = Numbers(2);
    let requests: Vec<Request> = (0..1_000).map(|_| Request::whole(numbers.below(RECORDS) as u64)).collect();
    let mut group = c.benchmark_group("gather");
    group.throughput(Throughput::Elements(requests.len() as u64));
    let mut out = Vec::new();
    group.bench_function("records, letters", |b| {
        b.iter(|| gathered(&fasta, black_box(&requests), &Raw, &mut out).expect("records"));
    });
    assert!(out.starts_with(&fasta.sequence(requests[0].row).expect("a record")));
    let tokens = Translate::<i64>::new(&TokenTable::named("esm").expect("a table")).expect("ids");
    let mut out = Vec::new();
    group.bench_function("records, tokens (i64)", |b| {
        b.iter(|| gathered(&fasta, black_box(&requests), &tokens, &mut out).expect("records"));
    });
    group.finish();
}

// --- plan -------------------------------------------------------------------------------------------------------------

fn plans(c: &mut Criterion) {
    let mut numbers = Numbers(3);
    let mut lengths: Vec<u64> = (0..100_000).map(|_| 20 + numbers.below(1_500) as u64).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    let rules = Rules {
        max_tokens: 16_384,
        max_length: Some(1_022),
        specials: 2,
        overflow: Overflow::Truncate,
        layout: Layout::Packed,
    };
    let packed = || pack(black_box(&lengths), rules).expect("lengths that fit");
    assert!(packed().efficiency() > 0.99);
    let mut group = c.benchmark_group("plan");
    group.throughput(Throughput::Elements(lengths.len() as u64)).bench_function("packing", |b| b.iter(packed));

    let permutation = Permutation::new(100_003, 1, 2).expect("a length that is allowed");
    let places: Vec<i64> = (0..100_003).collect();
    let taken = || permutation.take(black_box(&places)).expect("places inside");
    let mut sorted = taken();
    sorted.sort_unstable();
    assert_eq!(sorted, places);
    group.throughput(Throughput::Elements(places.len() as u64)).bench_function("permutation", |b| b.iter(taken));
    group.finish();
}

// --- pool -------------------------------------------------------------------------------------------------------------

fn rows(c: &mut Criterion) {
    const ROWS: usize = 1_000;
    // Positions of a board game: stones, a policy over a few cells, and who won.
    let fields = [(4, 338, true), (4, 169, true), (4, 1, true)]
        .map(|(width, values, float)| packed::Field::new(width, values, float).expect("a field that is allowed"));
    let mut numbers = Numbers(4);
    let columns = fields.map(|field| {
        let value = |_| if numbers.below(4) == 0 { 1.0_f32 } else { 0.0 };
        (0..ROWS * field.bytes() / 4).map(value).flat_map(f32::to_le_bytes).collect::<Vec<u8>>()
    });
    let columns: Vec<&[u8]> = columns.iter().map(Vec::as_slice).collect();
    let packed = || pack_rows(&fields, black_box(&columns), ROWS).expect("columns that fit");
    let (content, ends) = packed();
    let mut out: Vec<Vec<u8>> = fields.iter().map(|field| vec![0; field.bytes()]).collect();
    let mut unpacked = |row: usize| {
        let start = if row == 0 { 0 } else { ends[row - 1] as usize };
        packed::unpack(&fields, &content[start..ends[row] as usize], out.iter_mut().map(Vec::as_mut_slice))
            .expect("a packed row");
        out[1][0]
    };
    unpacked(ROWS - 1);
    let mut group = c.benchmark_group("pool");
    group.throughput(Throughput::Elements(ROWS as u64));
    group.bench_function("rows packed", |b| b.iter(packed));
    group.bench_function("rows unpacked", |b| b.iter(|| (0..ROWS).map(&mut unpacked).map(u64::from).sum::<u64>()));
    group.finish();
    let last = |column: usize| &columns[column][(ROWS - 1) * fields[column].bytes()..];
    assert!((0..fields.len()).all(|column| out[column] == last(column)));
}

// --- deflate ----------------------------------------------------------------------------------------------------------

/// A gzip file with a point for each 256 kB, as an index of one has them.
fn deflated(plain: &[u8], spills: &Spills) -> Result<Deflate> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    encoder.write_all(plain)?;
    let raw = encoder.finish()?;
    let mut builder = Builder::new(spills, 256 << 10);
    let mut reader = Inflating::new(&raw, Kind::Gzip, &Unwatched)?.into_index(&mut builder);
    std::io::copy(&mut reader.by_ref(), &mut std::io::sink())?;
    reader.finish()?;
    let mut index = Vec::new();
    let facts = Fingerprint { size: raw.len() as u64, mtime_ns: 0, sample: 0 };
    builder.finish(Kind::Gzip, &facts, Starts::new(spills), &mut index, &Unwatched)?;
    Ok(Deflate::new(Arc::new(raw), Arc::new(Zidx::open(Store::memory(&index))?)))
}

fn deflate(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = fasta_bytes();
    let source = deflated(&plain, &Spills::into(folder.path())).expect("a gzip file");
    let mut numbers = Numbers(5);
    let mut group = c.benchmark_group("deflate");
    group.throughput(Throughput::Elements(1)).bench_function("300 bytes at a random place", |b| {
        b.iter(|| {
            let at = numbers.below(plain.len() - 300);
            let mut scratch = Scratch::default();
            let found = source.bytes(at as u64..at as u64 + 300, &mut scratch).expect("bytes of the file");
            assert!(found == &plain[at..at + 300]);
        });
    });
    group.finish();
}

/// One thread: what a stage costs is told apart from what more cores bring.
fn alone(c: &mut Criterion) {
    threads::set_threads(1);
    for stage in [scans, translation, gathers, plans, rows, deflate] {
        stage(c);
    }
}

criterion_group!(stages, alone);
criterion_main!(stages);
