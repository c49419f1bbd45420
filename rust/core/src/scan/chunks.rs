//! Chunks of a source worked on in parallel and handed over in order.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::io::{Scratch, Source};
use crate::watch::{BEAT, Beat, Watch};

/// Bytes per chunk: small enough to stay in a core's cache and to answer Ctrl-C, large enough to be worth a hand-over.
const CHUNK: u64 = 1 << 20;

struct Board<T> {
    /// Where the next chunk starts.
    at: u64,
    /// The number of the next chunk to be worked on.
    next: usize,
    /// The number of the next chunk to be handed over.
    handed: usize,
    /// Chunks that are done but not handed over, with the offset they end at.
    done: BTreeMap<usize, (u64, Result<T>)>,
    /// Workers that can still finish a chunk.
    working: usize,
    stop: bool,
}

/// Runs `work` on every chunk of `source` with `threads` threads and `consume` on the results, in order, on this thread.
///
/// Memory is bounded: no worker runs more than a few chunks ahead of `consume`. The first error, in file order, ends it.
pub(crate) fn in_order<T: Send>(
    source: &dyn Source,
    threads: usize,
    watch: &dyn Watch,
    work: impl Fn(Range<u64>, &[u8]) -> Result<T> + Sync,
    mut consume: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let run = |range: Range<u64>, scratch: &mut Scratch| {
        source.check_unchanged()?;
        work(range.clone(), source.bytes(range, scratch)?)
    };
    if threads <= 1 || source.len() <= CHUNK {
        on_this_thread(source, watch, run, &mut consume)
    } else {
        on_threads(source, threads, watch, run, &mut consume)
    }
}

fn on_this_thread<T>(
    source: &dyn Source,
    watch: &dyn Watch,
    run: impl Fn(Range<u64>, &mut Scratch) -> Result<T>,
    consume: &mut impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let mut scratch = Scratch::default();
    let mut beat = Beat::new(watch, source.len());
    let mut at = 0;
    while at < source.len() {
        let end = source.chunk_end(at, CHUNK);
        consume(run(at..end, &mut scratch)?)?;
        at = end;
        beat.tell(at)?;
    }
    Ok(())
}

fn on_threads<T: Send>(
    source: &dyn Source,
    threads: usize,
    watch: &dyn Watch,
    run: impl Fn(Range<u64>, &mut Scratch) -> Result<T> + Sync,
    consume: &mut impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let threads = threads.min(source.len().div_ceil(CHUNK) as usize);
    let board = Mutex::new(Board { at: 0, next: 0, handed: 0, done: BTreeMap::new(), working: threads, stop: false });
    let (room, news) = (Condvar::new(), Condvar::new());
    let ahead = threads * 4;
    std::thread::scope(|scope| {
        // However this scope is left, by a panic too, the workers must end: the scope waits for them.
        let _stop = Stop { board: &board, room: &room };
        for _ in 0..threads {
            let worker = || {
                let _leaving = Leaving { board: &board, room: &room, news: &news };
                let mut scratch = Scratch::default();
                while let Some((number, range)) = claim(source, &board, &room, ahead) {
                    let end = range.end;
                    let result = run(range, &mut scratch);
                    lock(&board).done.insert(number, (end, result));
                    news.notify_one();
                }
            };
            if let Err(error) = std::thread::Builder::new().name("seekset-scan".to_owned()).spawn_scoped(scope, worker)
            {
                // Where the system allows fewer threads, fewer do.
                let mut board = lock(&board);
                board.working -= 1;
                if board.working == 0 {
                    return Err(error.into());
                }
            }
        }
        hand_over(source, &board, &room, &news, watch, consume)
    })
}

/// Tells all workers to end when it is dropped.
struct Stop<'a, T> {
    board: &'a Mutex<Board<T>>,
    room: &'a Condvar,
}

impl<T> Drop for Stop<'_, T> {
    fn drop(&mut self) {
        lock(self.board).stop = true;
        self.room.notify_all();
    }
}

/// Tells the others that a worker has gone; if by a panic, nobody waits for its chunk for ever.
struct Leaving<'a, T> {
    board: &'a Mutex<Board<T>>,
    room: &'a Condvar,
    news: &'a Condvar,
}

impl<T> Drop for Leaving<'_, T> {
    fn drop(&mut self) {
        let mut board = lock(self.board);
        board.working -= 1;
        if std::thread::panicking() {
            board.stop = true;
            self.room.notify_all();
        }
        self.news.notify_one();
    }
}

fn lock<T>(board: &Mutex<Board<T>>) -> MutexGuard<'_, Board<T>> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}

fn claim<T>(source: &dyn Source, board: &Mutex<Board<T>>, room: &Condvar, ahead: usize) -> Option<(usize, Range<u64>)> {
    let mut board = lock(board);
    while !board.stop && board.next >= board.handed + ahead {
        board = room.wait(board).unwrap_or_else(PoisonError::into_inner);
    }
    if board.stop || board.at >= source.len() {
        return None;
    }
    let range = board.at..source.chunk_end(board.at, CHUNK);
    board.at = range.end;
    board.next += 1;
    Some((board.next - 1, range))
}

fn hand_over<T>(
    source: &dyn Source,
    board: &Mutex<Board<T>>,
    room: &Condvar,
    news: &Condvar,
    watch: &dyn Watch,
    consume: &mut impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let mut beat = Beat::new(watch, source.len());
    let mut done = 0;
    while done < source.len() {
        let ready = {
            let mut board = lock(board);
            let number = board.handed;
            if !board.done.contains_key(&number) && board.working > 0 && !board.stop {
                board = news.wait_timeout(board, BEAT).unwrap_or_else(PoisonError::into_inner).0;
            }
            let ready = board.done.remove(&number);
            if ready.is_none() && (board.working == 0 || board.stop) {
                return Err(Error::Interrupted); // a worker panicked; the scope passes its panic on
            }
            board.handed += usize::from(ready.is_some());
            ready
        };
        if let Some((end, result)) = ready {
            room.notify_one();
            consume(result?)?;
            done = end;
        }
        beat.tell(done)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::Unwatched;

    fn starts(threads: usize, len: usize, watch: &dyn Watch) -> Result<Vec<u64>> {
        let bytes = vec![0_u8; len];
        let mut seen = Vec::new();
        in_order(
            &bytes,
            threads,
            watch,
            |range, chunk| {
                assert_eq!(chunk.len() as u64, range.end - range.start);
                Ok(range.start)
            },
            |start| {
                seen.push(start);
                Ok(())
            },
        )?;
        Ok(seen)
    }

    #[test]
    fn chunks_arrive_in_order_whatever_the_threads() {
        let len = 37 * CHUNK as usize + 5;
        let expected: Vec<u64> = (0..38).map(|k| k * CHUNK).collect();
        for threads in [1, 2, 5] {
            assert_eq!(starts(threads, len, &Unwatched).unwrap(), expected);
        }
        assert_eq!(starts(2, 0, &Unwatched).unwrap(), Vec::<u64>::new());
    }

    #[test]
    fn the_watcher_can_stop_the_work() {
        for threads in [1, 3] {
            let stopped = starts(threads, 20 * CHUNK as usize, &|_, _| false);
            assert!(matches!(stopped, Err(Error::Interrupted)));
        }
    }

    #[test]
    fn the_first_error_in_file_order_wins() {
        let bytes = vec![0_u8; 20 * CHUNK as usize];
        let result = in_order(
            &bytes,
            4,
            &Unwatched,
            |range, _| {
                if range.start >= 3 * CHUNK { Err(Error::format(range.start, "bad")) } else { Ok(()) }
            },
            |()| Ok(()),
        );
        assert_eq!(result.unwrap_err().to_string(), format!("<bytes>: byte {}: bad", 3 * CHUNK));
    }
}
