//! Rows that some threads read while another takes those before them.

use rayon::prelude::*;

use super::builder::Rows;
use crate::error::Result;
use crate::io::threads;

/// Turns of reading and taking. Memory goes from turn to turn: fresh pages cost more than what is read into them.
#[derive(Default)]
pub(crate) struct Turns {
    waiting: Vec<Rows>,
    spare: Vec<Rows>,
}

impl Turns {
    /// Reads rows in the pool, those of each part on one thread, and takes those of the turn before meanwhile, here.
    pub fn next<P: Sync>(
        &mut self,
        parts: &[P],
        read: impl Fn(&P, &mut Rows) -> Result<()> + Sync,
        take: &mut impl FnMut(&Rows) -> Result<()>,
    ) -> Result<()> {
        let mut filled = std::mem::take(&mut self.spare);
        filled.resize_with(filled.len().max(parts.len()), Rows::default);
        filled.iter_mut().for_each(Rows::clear);
        let fill = || parts.par_iter().zip(&mut filled).try_for_each(|(part, rows)| read(part, rows));
        let (read, taken) = threads::in_pool_and_here(fill, || self.waiting.iter().try_for_each(&mut *take))?;
        taken.and(read)?;
        self.spare = std::mem::replace(&mut self.waiting, filled);
        Ok(())
    }

    /// Takes those of the last turn.
    pub fn end(self, take: impl FnMut(&Rows) -> Result<()>) -> Result<()> {
        self.waiting.iter().try_for_each(take)
    }
}
