//! Servers behind a proxy that spreads rows over them: which of them has a row, and how a proxy is told.
//!
//! Called by what makes and fills tables. Data is put into the servers directly, for no such proxy here takes COPY.

use std::net::SocketAddr;

use super::Place;

/// More of them are behind no target.
const SHARDS_MAX: usize = 4;

/// What a proxy is told behind whose back tables were made.
pub(super) const REFRESH: &str = "REFRESH TABLE METADATA";

/// The servers behind a sharding proxy. A row belongs to one of them by a number that is its sharding key, modulo how many they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shards {
    servers: [Option<SocketAddr>; SHARDS_MAX],
    /// Whether tables are made through the proxy, which is told then where rows are; else they are made behind its back.
    pub(crate) makes_tables: bool,
}

impl Shards {
    /// These; None if there is none, or if there are too many.
    pub(crate) fn of(addresses: &[SocketAddr], makes_tables: bool) -> Option<Self> {
        if addresses.is_empty() || addresses.len() > SHARDS_MAX {
            return None;
        }
        let mut servers = [None; SHARDS_MAX];
        servers.iter_mut().zip(addresses).for_each(|(server, address)| *server = Some(*address));
        Some(Self { servers, makes_tables })
    }

    /// Their addresses, in the order of their numbers.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.servers.into_iter().flatten()
    }

    fn count(&self) -> u64 {
        self.addresses().count() as u64
    }

    /// What a server of this number is called where the proxy is Ashlar.
    pub(crate) fn name(number: usize) -> String {
        format!("s{number}")
    }
}

impl Place {
    /// The servers that have the rows: the target itself, or the shards behind it.
    pub(super) fn parts(&self) -> Vec<SocketAddr> {
        self.shards.map_or_else(|| vec![self.address], |shards| shards.addresses().collect())
    }

    /// Whether a row with this sharding key is in this part.
    pub(super) fn is_in(&self, part: usize, key: u64) -> bool {
        self.shards.is_none_or(|shards| key % shards.count() == part as u64)
    }

    /// Whether tables are made through a proxy and filled behind it.
    pub(super) fn makes_sharded(&self) -> bool {
        self.shards.is_some_and(|shards| shards.makes_tables)
    }

    /// Whether tables are made and filled behind the back of a sharding proxy.
    pub(super) fn makes_unseen(&self) -> bool {
        self.shards.is_some_and(|shards| !shards.makes_tables)
    }

    /// The servers that are told to make tables: those that have the rows, or a proxy that passes it on to them.
    pub(super) fn makers(&self) -> Vec<SocketAddr> {
        if self.makes_sharded() { vec![self.address] } else { self.parts() }
    }

    /// What stands after the columns of a table that is made through a sharding proxy: its rows are where `key` modulo the servers says,
    /// or, without a key, on all of them. Nothing elsewhere.
    pub(super) fn sharded_by(&self, key: Option<&str>) -> String {
        let Some(shards) = self.shards.filter(|shards| shards.makes_tables) else { return String::new() };
        let names: Vec<String> = (0..shards.addresses().count()).map(Shards::name).collect();
        let servers = names.join(",");
        match key {
            Some(key) => {
                format!(" PARTITION BY HASH ({key}) USING sharded WITH (servers = '{servers}', algorithm = 'mod')")
            }
            None => format!(" USING sharded WITH (servers = '{servers}', broadcast = 'true')"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(shards: usize, makes_tables: bool) -> Place {
        let addresses: Vec<SocketAddr> =
            (1..=shards).map(|port| SocketAddr::from(([127, 0, 0, 1], port as u16))).collect();
        Place {
            address: SocketAddr::from(([127, 0, 0, 1], 9)),
            rows: None,
            postgres: true,
            stores: true,
            engine: false,
            shards: Shards::of(&addresses, makes_tables),
        }
    }

    #[test]
    fn a_row_is_in_one_part_and_a_proxy_is_told_in_which() {
        let three = place(3, true);
        assert_eq!(three.parts().iter().map(SocketAddr::port).collect::<Vec<_>>(), [1, 2, 3]);
        for key in 0..10 {
            assert_eq!((0..3).filter(|part| three.is_in(*part, key)).collect::<Vec<_>>(), [key as usize % 3]);
        }
        let told = " PARTITION BY HASH (id) USING sharded WITH (servers = 's0,s1,s2', algorithm = 'mod')";
        assert_eq!(three.sharded_by(Some("id")), told);
        assert_eq!(three.sharded_by(None), " USING sharded WITH (servers = 's0,s1,s2', broadcast = 'true')");
    }

    #[test]
    fn nothing_is_said_where_there_are_no_shards_or_nobody_to_tell() {
        let (none, deaf) = (place(0, true), place(2, false));
        assert_eq!((none.sharded_by(Some("id")), deaf.sharded_by(Some("id"))), (String::new(), String::new()));
        assert_eq!(none.parts().iter().map(SocketAddr::port).collect::<Vec<_>>(), [9]);
        assert!(none.is_in(0, 7) && !none.makes_sharded() && !deaf.makes_sharded());
        assert!(deaf.makes_unseen() && !none.makes_unseen() && !place(3, true).makes_unseen());
        let makers = |place: Place| place.makers().iter().map(SocketAddr::port).collect::<Vec<_>>();
        assert_eq!((makers(none), makers(place(3, true))), (vec![9], vec![9]));
        assert_eq!(makers(deaf).len(), deaf.parts().len());
        assert!(Shards::of(&[SocketAddr::from(([127, 0, 0, 1], 1)); 5], true).is_none());
    }
}
