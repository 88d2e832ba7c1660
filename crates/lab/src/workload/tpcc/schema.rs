//! The tables of TPC-C, clause 1.3, and what differs between targets.
//!
//! Columns have the specification's names and sizes. Fixed texts are `varchar` here: no column of TPC-C is compared by its padding,
//! and not every target has `char(n)`.

use super::data::{TABLES, Table};
use crate::workload::Place;

/// All names begin with it, so that nobody's tables are met in a server that was running.
const PREFIX: &str = "ashlar_lab_";

/// A text of SQL with the names of tables in it, which are marked with `@`.
pub(super) fn named(sql: &str) -> String {
    sql.replace('@', PREFIX)
}

impl Table {
    /// Its name after the mark.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Item => "item",
            Self::Warehouse => "warehouse",
            Self::District => "district",
            Self::Customer => "customer",
            Self::History => "history",
            Self::Orders => "orders",
            Self::NewOrder => "new_order",
            Self::OrderLine => "order_line",
            Self::Stock => "stock",
        }
    }

    fn columns(self) -> &'static str {
        match self {
            Self::Item => {
                "i_id int, i_im_id int, i_name varchar(24), i_price numeric(5,2), i_data varchar(50), PRIMARY KEY (i_id)"
            }
            Self::Warehouse => {
                "w_id int, w_name varchar(10), w_street_1 varchar(20), w_street_2 varchar(20), w_city varchar(20), \
                 w_state varchar(2), w_zip varchar(9), w_tax numeric(4,4), w_ytd numeric(12,2), PRIMARY KEY (w_id)"
            }
            Self::District => {
                "d_w_id int, d_id int, d_name varchar(10), d_street_1 varchar(20), d_street_2 varchar(20), \
                 d_city varchar(20), d_state varchar(2), d_zip varchar(9), d_tax numeric(4,4), d_ytd numeric(12,2), \
                 d_next_o_id int, PRIMARY KEY (d_w_id, d_id)"
            }
            Self::Customer => {
                "c_w_id int, c_d_id int, c_id int, c_first varchar(16), c_middle varchar(2), c_last varchar(16), \
                 c_street_1 varchar(20), c_street_2 varchar(20), c_city varchar(20), c_state varchar(2), c_zip varchar(9), \
                 c_phone varchar(16), c_since timestamp, c_credit varchar(2), c_credit_lim numeric(12,2), \
                 c_discount numeric(4,4), c_balance numeric(12,2), c_ytd_payment numeric(12,2), c_payment_cnt int, \
                 c_delivery_cnt int, c_data varchar(500), PRIMARY KEY (c_w_id, c_d_id, c_id)"
            }
            Self::History => {
                "h_c_id int, h_c_d_id int, h_c_w_id int, h_d_id int, h_w_id int, h_date timestamp, h_amount numeric(6,2), \
                 h_data varchar(24)"
            }
            Self::Orders => {
                "o_w_id int, o_d_id int, o_id int, o_c_id int, o_entry_d timestamp, o_carrier_id int, o_ol_cnt int, \
                 o_all_local int, PRIMARY KEY (o_w_id, o_d_id, o_id)"
            }
            Self::NewOrder => "no_w_id int, no_d_id int, no_o_id int, PRIMARY KEY (no_w_id, no_d_id, no_o_id)",
            Self::OrderLine => {
                "ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int, ol_supply_w_id int, \
                 ol_delivery_d timestamp, ol_quantity int, ol_amount numeric(6,2), ol_dist_info varchar(24), \
                 PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)"
            }
            Self::Stock => {
                "s_w_id int, s_i_id int, s_quantity int, s_dist_01 varchar(24), s_dist_02 varchar(24), \
                 s_dist_03 varchar(24), s_dist_04 varchar(24), s_dist_05 varchar(24), s_dist_06 varchar(24), \
                 s_dist_07 varchar(24), s_dist_08 varchar(24), s_dist_09 varchar(24), s_dist_10 varchar(24), \
                 s_ytd int, s_order_cnt int, s_remote_cnt int, s_data varchar(50), PRIMARY KEY (s_w_id, s_i_id)"
            }
        }
    }
}

impl Table {
    /// The column with the warehouse that its rows belong to, which for a payment is the one that was paid to. Items belong to none.
    fn warehouse(self) -> Option<&'static str> {
        match self {
            Self::Item => None,
            Self::Warehouse => Some("w_id"),
            Self::District => Some("d_w_id"),
            Self::Customer => Some("c_w_id"),
            Self::History => Some("h_w_id"),
            Self::Orders => Some("o_w_id"),
            Self::NewOrder => Some("no_w_id"),
            Self::OrderLine => Some("ol_w_id"),
            Self::Stock => Some("s_w_id"),
        }
    }

    /// The column by which rows lie together on Ashlar, for tables of which it is asked with a part of their key.
    fn partition_by(self) -> Option<&'static str> {
        match self {
            Self::Customer | Self::Orders | Self::NewOrder | Self::OrderLine => self.warehouse(),
            Self::Item | Self::Warehouse | Self::District | Self::History | Self::Stock => None,
        }
    }
}

/// The statements that take all tables away.
pub(super) fn drops() -> Vec<String> {
    TABLES.iter().map(|table| named(&format!("DROP TABLE IF EXISTS @{}", table.name()))).collect()
}

/// The statements that make a table; those of its indexes come when it is full. On Ashlar the rows of a warehouse lie together,
/// as a user would have them who asks for them by a part of their key.
pub(super) fn create(place: Place, table: Table) -> String {
    let unlogged = if place.postgres { "UNLOGGED " } else { "" };
    let placed = table.partition_by().filter(|_| !place.postgres);
    let placed = placed.map_or_else(String::new, |column| format!(" WITH (partition_by = '{column}')"));
    let sharded = place.sharded_by(table.warehouse());
    named(&format!("CREATE {unlogged}TABLE @{} ({}){placed}{sharded}", table.name(), table.columns()))
}

/// The statements that follow when a table is full: its indexes, and what the planner must know.
///
/// Everybody gets an index on the names of customers and one on their orders. PostgreSQL's primary keys are ordered, so that a
/// first part of a key is found through them; those of Ashlar are hashed, and it gets an ordered index beside where a part of a
/// key is asked for.
pub(super) fn finish(place: Place, table: Table) -> Vec<String> {
    let index =
        |columns: &str| format!("CREATE INDEX @{}_{} ON @{0} ({columns})", table.name(), columns.replace(", ", "_"));
    let mut statements = match table {
        Table::Customer => vec![index("c_w_id, c_d_id, c_last")],
        Table::Orders => vec![index("o_w_id, o_d_id, o_c_id, o_id")],
        Table::NewOrder if !place.postgres => vec![index("no_w_id, no_d_id, no_o_id")],
        Table::OrderLine if !place.postgres => vec![index("ol_w_id, ol_d_id, ol_o_id")],
        _ => Vec::new(),
    };
    if place.postgres {
        statements.push(format!("VACUUM ANALYZE @{}", table.name()));
    }
    statements.iter().map(|statement| named(statement)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_table_has_the_prefix() {
        assert_eq!(named("SELECT 1 FROM @item"), "SELECT 1 FROM ashlar_lab_item");
        assert!(drops().iter().all(|statement| statement.starts_with("DROP TABLE IF EXISTS ashlar_lab_")));
    }
}
