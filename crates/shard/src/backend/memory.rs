//! Memory that a connection holds for a long answer, charged before it is allocated.
//!
//! Each connection may keep [`KEEP_BYTES`]; anything beyond is charged to its borrower until it is given back.

use std::sync::Arc;

use ashlar_base::Result;

use super::{Backend, KEEP_BYTES};

/// Memory that is paid for until this is dropped.
pub trait Memory: Send + Sync {
    /// Pays for so many bytes more.
    ///
    /// # Errors
    /// 53200 where there are none.
    fn grow(&mut self, bytes: usize) -> Result<()>;
}

/// Who pays.
pub trait Payer: Send + Sync {
    /// An account for one connection.
    fn account(&self) -> Box<dyn Memory>;
}

/// The account of a connection.
#[derive(Default)]
pub(super) struct Paid {
    payer: Option<Arc<dyn Payer>>,
    account: Option<Box<dyn Memory>>,
    bytes: usize,
}

impl Paid {
    /// Pays for a buffer of this size, as far as it has not been paid for.
    pub(super) fn up_to(&mut self, bytes: usize) -> Result<()> {
        let beyond = bytes.saturating_sub(KEEP_BYTES);
        if beyond <= self.bytes {
            return Ok(());
        }
        let Some(payer) = &self.payer else { return Ok(()) };
        self.account.get_or_insert_with(|| payer.account()).grow(beyond - self.bytes)?;
        self.bytes = beyond;
        Ok(())
    }
}

impl Backend {
    /// Who pays for what it holds beyond what it may keep.
    pub(crate) fn paid_by(&mut self, payer: Option<Arc<dyn Payer>>) {
        self.paid.payer = payer;
    }

    /// It is given back, and holds no more than it may keep.
    pub(crate) fn settle(&mut self) {
        // What came with the end of a long answer was read from the same buffer.
        self.tidy();
        self.paid.account = None;
        self.paid.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use ashlar_base::{Error, ErrorCode};
    use parking_lot::Mutex;

    use super::*;

    /// So many bytes for all.
    struct Purse(Arc<Mutex<usize>>);

    struct Part(Arc<Mutex<usize>>, usize);

    impl Payer for Purse {
        fn account(&self) -> Box<dyn Memory> {
            Box::new(Part(Arc::clone(&self.0), 0))
        }
    }

    impl Memory for Part {
        fn grow(&mut self, bytes: usize) -> Result<()> {
            let mut left = self.0.lock();
            *left = left.checked_sub(bytes).ok_or_else(|| Error::new(ErrorCode::OutOfMemory, "no more"))?;
            self.1 += bytes;
            Ok(())
        }
    }

    impl Drop for Part {
        fn drop(&mut self) {
            *self.0.lock() += self.1;
        }
    }

    #[test]
    fn what_is_beyond_is_paid_for_once_and_given_back() {
        let left = Arc::new(Mutex::new(1000));
        let mut paid = Paid { payer: Some(Arc::new(Purse(Arc::clone(&left)))), ..Paid::default() };
        paid.up_to(KEEP_BYTES).unwrap();
        assert_eq!(*left.lock(), 1000);
        paid.up_to(KEEP_BYTES + 600).unwrap();
        paid.up_to(KEEP_BYTES + 200).unwrap();
        paid.up_to(KEEP_BYTES + 700).unwrap();
        assert_eq!(*left.lock(), 300);
        assert_eq!(paid.up_to(KEEP_BYTES + 1001).unwrap_err().code(), ErrorCode::OutOfMemory);
        assert_eq!(*left.lock(), 300);
        paid.account = None;
        assert_eq!(*left.lock(), 1000);
    }
}
