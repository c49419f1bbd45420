//! Times the bare scan of a FASTA file, records and their lengths and nothing kept: seekset's beside helicase's.
//!
//! `seekset-bench FILE [REPEATS]` prints one JSON object. The contestants take turns, so that a slow moment of the
//! machine is shared among them; a first round warms up and shows that they agree, and is not counted.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use helicase::input::FromMmap;
use helicase::parser::FastaParser;
use helicase::{Config, HelicaseParser, ParallelFastxParser, ParserOptions};

/// The least that helicase can do and still know lengths: no headers, no letters copied or packed.
///
/// Tried beside it: headers on (the same), letters as a string (slower, it joins wrapped lines), `FastxParser` instead
/// of `FastaParser` (the same or slower, it is boxed), a map that is populated or advised (the same), and `from_reader`
/// and `from_file` instead of a map (slower; the latter reads ahead on a second thread).
const LENGTHS_ONLY: Config = ParserOptions::default().ignore_headers().ignore_dna().compute_dna_len().config();

/// Records and letters.
type Counts = (u64, u64);
type Answer = Result<Counts, Box<dyn Error>>;

struct Contestant {
    name: &'static str,
    threads: usize,
    count: fn(&Path, usize) -> Answer,
}

const CONTESTANTS: [Contestant; 4] = [
    Contestant { name: "helicase", threads: 1, count: helicase_alone },
    Contestant { name: "helicase", threads: 2, count: helicase_parallel },
    Contestant { name: "seekset", threads: 1, count: seekset },
    Contestant { name: "seekset", threads: 2, count: seekset },
];

fn helicase_alone(path: &Path, _threads: usize) -> Answer {
    let mut parser = FastaParser::<LENGTHS_ONLY, _>::from_file_mmap(path)?;
    let mut counts = (0, 0);
    while let Some(event) = parser.next() {
        event?;
        counts.0 += 1;
        counts.1 += parser.get_dna_len() as u64;
    }
    Ok(counts)
}

fn helicase_parallel(path: &Path, threads: usize) -> Answer {
    let parts = ParallelFastxParser::<LENGTHS_ONLY>::from_file_mmap(path)?.threads(threads).for_each_with(
        || (0, 0),
        |counts: &mut Counts, mut parser| {
            while let Some(event) = parser.next() {
                event?;
                counts.0 += 1;
                counts.1 += parser.get_dna_len() as u64;
            }
            Ok(())
        },
    )?;
    Ok(parts.iter().fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1)))
}

fn seekset(path: &Path, threads: usize) -> Answer {
    Ok(seekset_core::fasta::count(path, threads)?)
}

/// What all contestants count, or an error that says who differs.
fn agreed(path: &Path) -> Answer {
    let mut first = None;
    for Contestant { name, threads, count } in CONTESTANTS {
        let counts = count(path, threads)?;
        if *first.get_or_insert(counts) != counts {
            return Err(format!("{name} with {threads} threads counts {counts:?}, but others {first:?}").into());
        }
    }
    first.ok_or_else(|| "there are no contestants".into())
}

/// Seconds of each contestant, in the order of the repeats: those of one round belong together.
fn times(path: &Path, repeats: usize) -> Result<[Vec<f64>; CONTESTANTS.len()], Box<dyn Error>> {
    let mut times = [const { Vec::new() }; CONTESTANTS.len()];
    for _ in 0..repeats {
        for (times, contestant) in times.iter_mut().zip(CONTESTANTS) {
            let start = Instant::now();
            (contestant.count)(path, contestant.threads)?;
            times.push(start.elapsed().as_secs_f64());
        }
    }
    Ok(times)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("give a FASTA file")?;
    let repeats = arguments.next().map_or(Ok(7), |text| text.parse())?;
    if repeats == 0 {
        return Err("repeats must be at least 1".into());
    }
    let path = Path::new(&path);
    let (records, letters) = agreed(path)?;
    let results: Vec<String> =
        CONTESTANTS.iter().zip(times(path, repeats)?).map(|(c, times)| json(c, &times)).collect();
    println!("{{\"records\": {records}, \"letters\": {letters}, \"contestants\": [\n  {}\n]}}", results.join(",\n  "));
    Ok(())
}

fn json(contestant: &Contestant, seconds: &[f64]) -> String {
    let Contestant { name, threads, .. } = contestant;
    format!("{{\"name\": \"{name}\", \"threads\": {threads}, \"seconds\": {seconds:?}}}")
}
