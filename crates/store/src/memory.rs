//! Memory accounts: every buffer of the store is charged before it is allocated, and uncharged when it is freed.
//!
//! What is small beside the rows (bits, version logs) is charged as it grows, over the bound if need be. Called by
//! `segment`, `index` and whatever else allocates for rows. A buffer that a reader still borrows stays
//! charged until the reader lets go. Never allocates for rows itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ashlar_base::{Error, ErrorCode, Result};

/// One part in so many of a bound is kept for statements: a store that is full of rows must be read, and rows deleted, and
/// both take memory first.
const STATEMENTS_PART: u64 = 16;

/// The memory of one region, or of one transaction's buffered writes; all accounts of a store share its bound.
#[derive(Debug)]
pub(crate) struct Account {
    used: AtomicU64,
    /// The bound of this account alone.
    max: AtomicU64,
    /// Whether a statement holds it, not the rows of a table.
    is_statement: bool,
    /// Whether it may take of what is kept for statements, beyond the bounds.
    takes_kept: AtomicBool,
    total: Arc<Total>,
}

/// The memory of the whole store.
#[derive(Debug)]
pub(crate) struct Total {
    used: AtomicU64,
    /// What statements hold of it. What is kept for them is theirs even where rows, by what goes over the bound, are beyond it.
    by_statements: AtomicU64,
    /// The bound.
    max: AtomicU64,
}

impl Total {
    /// A bound with nothing used.
    pub(crate) fn new(max: u64) -> Arc<Self> {
        Arc::new(Self { used: AtomicU64::new(0), by_statements: AtomicU64::new(0), max: AtomicU64::new(max) })
    }

    /// The bound.
    pub(crate) fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    /// Has another bound from now on. What is above it stays.
    pub(crate) fn set_max(&self, max: u64) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Bytes charged in all.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

impl Account {
    /// An account of rows below a store's bound.
    pub(crate) fn new(total: &Arc<Total>) -> Arc<Self> {
        Self::with(total, false)
    }

    /// An account of a statement below a store's bound. It does not take of what is kept for statements, yet.
    pub(crate) fn of_statement(total: &Arc<Total>) -> Arc<Self> {
        Self::with(total, true)
    }

    fn with(total: &Arc<Total>, is_statement: bool) -> Arc<Self> {
        Arc::new(Self {
            used: AtomicU64::new(0),
            max: AtomicU64::new(u64::MAX),
            is_statement,
            takes_kept: AtomicBool::new(false),
            total: Arc::clone(total),
        })
    }

    /// From now on, whether it may take of what is kept for statements.
    pub(crate) fn take_kept(&self, takes_kept: bool) {
        self.takes_kept.store(takes_kept, Ordering::Relaxed);
    }

    /// An account without a bound, for arrays that leave the store.
    pub(crate) fn unbounded() -> Arc<Self> {
        Self::new(&Total::new(u64::MAX))
    }

    /// Bytes charged to this account.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Has a bound of its own; `u64::MAX`: none. What is above it stays.
    pub(crate) fn set_max(&self, max: u64) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Whether less than one part in so many of the bound, or of the store's, is left.
    pub(crate) fn has_less_than(&self, part: u64) -> bool {
        let is_below = |used: u64, max: u64| used > max - max / part;
        is_below(self.used(), self.max.load(Ordering::Relaxed)) || is_below(self.total.used(), self.total.max())
    }

    fn try_add(&self, bytes: u64) -> Result<()> {
        self.try_add_as(bytes, self.takes_kept.load(Ordering::Relaxed))
    }

    fn try_add_as(&self, bytes: u64, takes_kept: bool) -> Result<()> {
        if bytes == 0 {
            // Nothing fits, even where what went over the bound has left it behind.
            return Ok(());
        }
        let own_max = self.max.load(Ordering::Relaxed);
        let own_bound = if takes_kept { own_max.saturating_add(own_max / STATEMENTS_PART) } else { own_max };
        let within = |used: u64| used.checked_add(bytes).filter(|&after| after <= own_bound);
        if self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_err() {
            return Err(Error::new(ErrorCode::OutOfMemory, "out of memory")
                .with_detail(format!("memory_max of {own_max} bytes of the table reached"))
                .with_hint("delete rows, few at a time, raise memory_max, or let rows make room with eviction"));
        }
        let (total, total_max) = (&self.total, self.total.max());
        let held = match self.is_statement {
            true => total.by_statements.fetch_add(bytes, Ordering::Relaxed),
            false => total.by_statements.load(Ordering::Relaxed),
        };
        let is_kept = takes_kept && held.saturating_add(bytes) <= total_max / STATEMENTS_PART;
        let within = |used: u64| used.checked_add(bytes).filter(|&after| is_kept || after <= total_max);
        if total.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_err() {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            if self.is_statement {
                total.by_statements.fetch_sub(bytes, Ordering::Relaxed);
            }
            return Err(Error::new(ErrorCode::OutOfMemory, "out of memory")
                .with_detail(format!("memory limit of {} MiB reached", total_max >> 20))
                .with_hint("delete rows, few at a time, or raise store.memory_mib_max"));
        }
        Ok(())
    }

    fn add(&self, bytes: u64) {
        self.total.used.fetch_add(bytes, Ordering::Relaxed);
        self.used.fetch_add(bytes, Ordering::Relaxed);
        if self.is_statement {
            self.total.by_statements.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn sub(&self, bytes: u64) {
        self.total.used.fetch_sub(bytes, Ordering::Relaxed);
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        if self.is_statement {
            self.total.by_statements.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// Bytes charged to an account until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    account: Arc<Account>,
    bytes: u64,
}

impl Charge {
    /// Nothing charged yet.
    pub(crate) fn empty(account: &Arc<Account>) -> Self {
        Self { account: Arc::clone(account), bytes: 0 }
    }

    /// Charges `bytes`, or says 53200 and charges nothing.
    pub(crate) fn new(account: &Arc<Account>, bytes: usize) -> Result<Self> {
        account.try_add(bytes as u64)?;
        Ok(Self { account: Arc::clone(account), bytes: bytes as u64 })
    }

    /// Charges `bytes`, of what is kept for statements too.
    pub(crate) fn of_statement(account: &Arc<Account>, bytes: usize) -> Result<Self> {
        account.try_add_as(bytes as u64, true)?;
        Ok(Self { account: Arc::clone(account), bytes: bytes as u64 })
    }

    /// Charges `bytes` even over the bound. For what is small beside the rows, and for what a DELETE needs: a full
    /// store must be able to give memory back.
    pub(crate) fn forced(account: &Arc<Account>, bytes: usize) -> Self {
        account.add(bytes as u64);
        Self { account: Arc::clone(account), bytes: bytes as u64 }
    }

    /// Bytes charged.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Charges up to `bytes` in all, or says 53200 and changes nothing; or gives back what is above.
    pub(crate) fn try_resize(&mut self, bytes: usize) -> Result<()> {
        if bytes as u64 > self.bytes {
            self.account.try_add(bytes as u64 - self.bytes)?;
            self.bytes = bytes as u64;
        } else {
            self.resize(bytes);
        }
        Ok(())
    }

    /// Like [`Charge::try_resize`], but goes over the bound.
    pub(crate) fn resize(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        if bytes > self.bytes {
            self.account.add(bytes - self.bytes);
        } else {
            self.account.sub(self.bytes - bytes);
        }
        self.bytes = bytes;
    }

    /// Has another charge of the same account hold bytes of this one: at most as many as this one has.
    pub(crate) fn hand_over(&mut self, bytes: usize, to: &mut Self) {
        debug_assert!(Arc::ptr_eq(&self.account, &to.account), "bytes stay with their account");
        let bytes = self.bytes.min(bytes as u64);
        self.bytes -= bytes;
        to.bytes += bytes;
    }

    /// The account charged.
    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.sub(self.bytes);
    }
}

/// Bytes that are charged ahead, so that a statement that keeps many small things does not count each.
const AHEAD_BYTES: u64 = 64 << 10;

/// Memory that a statement holds beside the rows of the store, within the same bound and what is kept beyond it for
/// statements. Given back when it is dropped.
#[derive(Debug)]
pub struct Reservation {
    charge: Charge,
    used: u64,
}

impl Reservation {
    pub(crate) fn new(total: &Arc<Total>) -> Self {
        let account = Account::of_statement(total);
        account.take_kept(true);
        Self { charge: Charge::empty(&account), used: 0 }
    }

    /// Charges what is about to be allocated.
    ///
    /// # Errors
    /// 53200 over the bound; then nothing more is charged.
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        let used = self.used + bytes as u64;
        if used > self.charge.bytes() && self.charge.try_resize((used + AHEAD_BYTES) as usize).is_err() {
            self.charge.try_resize(used as usize)?;
        }
        self.used = used;
        Ok(())
    }

    /// The same where many hold little: nothing is charged ahead.
    ///
    /// # Errors
    /// As for [`Self::grow`].
    pub fn grow_exactly(&mut self, bytes: usize) -> Result<()> {
        let used = self.used + bytes as u64;
        if used > self.charge.bytes() {
            self.charge.try_resize(used as usize)?;
        }
        self.used = used;
        Ok(())
    }

    /// Gives back everything.
    pub fn clear(&mut self) {
        self.charge.resize(0);
        self.used = 0;
    }
}

#[cfg(test)]
mod tests;
