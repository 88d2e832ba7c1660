//! Newtypes for every id, so that the compiler refuses to mix them up.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

id!(
    /// A table of the catalog, and the region that stores it. Never reused while a server lives.
    TableId(u32)
);
id!(
    /// A column of one table, stable across renames and across columns added or dropped beside it.
    ColumnId(u32)
);
id!(
    /// A slice of a region: a contiguous range of slots.
    PartitionId(u16)
);
id!(
    /// A Redis Cluster slot, 0..=16383.
    Slot(u16)
);
id!(
    /// A commit timestamp of the hybrid logical clock: microseconds since 1970 in the upper 52 bits,
    /// a counter in the lower 12. Greater means later.
    Timestamp(u64)
);
