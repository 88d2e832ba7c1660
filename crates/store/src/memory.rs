//! Memory accounts: every buffer of the store is charged before it is allocated, and uncharged when it is freed.
//!
//! What is small beside the rows (bits, version logs) is charged as it grows, over the bound if need be. Called by
//! `segment`, `index` and whatever else allocates for rows. A buffer that a reader still borrows stays
//! charged until the reader lets go. Never allocates for rows itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ashlar_base::{Error, ErrorCode, Result};

/// One part in so many of a bound is reserved for statements: rows of a full store must still be read and deleted, and both take memory
/// first.
const STATEMENTS_PART: u64 = 16;

/// The memory of one region, or of one transaction's buffered writes; all accounts of a store share its bound.
#[derive(Debug)]
pub(crate) struct Account {
    used: AtomicU64,
    /// The bound of this account.
    max: AtomicU64,
    /// Whether it is an account of a statement, not of the rows of a table.
    is_statement: bool,
    /// Whether it may use what is reserved for statements, beyond the bounds.
    takes_kept: AtomicBool,
    total: Arc<Total>,
}

/// The memory of the whole store.
#[derive(Debug)]
pub(crate) struct Total {
    used: AtomicU64,
    /// The bytes that statements hold. What is reserved for statements remains theirs even if rows exceed their part.
    by_statements: AtomicU64,
    /// The bound.
    max: AtomicU64,
}

impl Total {
    /// A bound, with nothing charged.
    pub(crate) fn new(max: u64) -> Arc<Self> {
        Arc::new(Self { used: AtomicU64::new(0), by_statements: AtomicU64::new(0), max: AtomicU64::new(max) })
    }

    /// The bound.
    pub(crate) fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    /// Changes the bound. Charges above it stay.
    pub(crate) fn set_max(&self, max: u64) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// The sum of all charges, in bytes.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

impl Account {
    /// An account for rows, within a store's bound.
    pub(crate) fn new(total: &Arc<Total>) -> Arc<Self> {
        Self::with(total, false)
    }

    /// An account for a statement, within a store's bound. It does not use what is reserved for statements yet.
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

    /// Sets whether it may use what is reserved for statements.
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

    /// Changes the bound of this account; `u64::MAX` for none. Charges above it stay.
    pub(crate) fn set_max(&self, max: u64) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Whether less than one part in `part` of its own bound, or of the store's, is left.
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
    /// A charge of nothing.
    pub(crate) fn empty(account: &Arc<Account>) -> Self {
        Self { account: Arc::clone(account), bytes: 0 }
    }

    /// Charges `bytes`; otherwise 53200, and nothing is charged.
    pub(crate) fn new(account: &Arc<Account>, bytes: usize) -> Result<Self> {
        account.try_add(bytes as u64)?;
        Ok(Self { account: Arc::clone(account), bytes: bytes as u64 })
    }

    /// Charges `bytes`, also from what is reserved for statements.
    pub(crate) fn of_statement(account: &Arc<Account>, bytes: usize) -> Result<Self> {
        account.try_add_as(bytes as u64, true)?;
        Ok(Self { account: Arc::clone(account), bytes: bytes as u64 })
    }

    /// Charges `bytes` even over the bound: for memory that is small beside the rows, and for what a DELETE needs, since a full store
    /// must be able to free memory.
    pub(crate) fn forced(account: &Arc<Account>, bytes: usize) -> Self {
        account.add(bytes as u64);
        Self { account: Arc::clone(account), bytes: bytes as u64 }
    }

    /// Bytes charged.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Changes the charge to `bytes`. If it cannot grow: 53200, and nothing changes.
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

    /// Moves bytes to another charge of the same account: at most as many as this one has.
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

/// Bytes that are charged in advance, so that a statement that keeps many small things does not charge each.
const AHEAD_BYTES: u64 = 64 << 10;

/// Memory that a statement holds beside the rows of the store, within the same bound and what is reserved for statements beyond it.
/// Released when it is dropped.
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

    /// Charges memory that is about to be allocated.
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

    /// The same for many small holders: nothing is charged in advance.
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

    /// Releases everything.
    pub fn clear(&mut self) {
        self.charge.resize(0);
        self.used = 0;
    }
}

#[cfg(test)]
mod tests;
