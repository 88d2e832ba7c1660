//! The statements of TPC-C's transactions: one text for all targets.
//!
//! A row that is read in order to be changed is changed by an `UPDATE` that computes and returns (`UPDATE ... RETURNING`), where others
//! use `SELECT ... FOR UPDATE` and an `UPDATE`: it is right under READ COMMITTED where rows are locked, right where the first to commit
//! wins, and a round trip less.
//!
//! Parameters stand in the order of their numbers, each once, as a JDBC driver's `?` do: ShardingSphere-Proxy 5.1.0 hands them to such
//! a driver by their places.

/// A prepared statement: its name on a connection, its text, and the types of its parameters, which a driver declares.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) name: &'static str,
    pub(super) sql: &'static str,
    pub(super) types: &'static [u32],
}

/// Object ids of types: `SELECT oid FROM pg_type`.
const INT: u32 = 23;
const NUMERIC: u32 = 1700;
const TEXT: u32 = 1043;
const TIMESTAMP: u32 = 1114;

const STOCK_TYPES: [u32; 7] = [INT; 7];

macro_rules! statements {
    ($($constant:ident $name:literal $types:expr, $sql:expr;)*) => {
        $(pub(super) const $constant: Statement = Statement { name: $name, sql: $sql, types: &$types };)*
        /// All of them.
        pub(super) const ALL: &[&Statement] = &[$(&$constant),*];
    };
}

macro_rules! stock {
    ($column:literal) => {
        concat!(
            "UPDATE @stock SET s_quantity = CASE WHEN s_quantity >= $1 THEN s_quantity - $2 ELSE s_quantity + $3 END, ",
            "s_ytd = s_ytd + $4, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $5 ",
            "WHERE s_w_id = $6 AND s_i_id = $7 RETURNING s_quantity, s_data, ",
            $column
        )
    };
}

statements! {
    BEGIN "begin" [], "BEGIN";
    COMMIT "commit" [], "COMMIT";
    ROLLBACK "rollback" [], "ROLLBACK";

    // New-Order, clause 2.4.
    CUSTOMER_OF_ORDER "customer-of-order" [INT, INT, INT],
        "SELECT c_discount, c_last, c_credit FROM @customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
    WAREHOUSE_TAX "warehouse-tax" [INT], "SELECT w_tax FROM @warehouse WHERE w_id = $1";
    ITEM "item" [INT], "SELECT i_price, i_name, i_data FROM @item WHERE i_id = $1";
    STOCK_01 "stock-01" STOCK_TYPES, stock!("s_dist_01");
    STOCK_02 "stock-02" STOCK_TYPES, stock!("s_dist_02");
    STOCK_03 "stock-03" STOCK_TYPES, stock!("s_dist_03");
    STOCK_04 "stock-04" STOCK_TYPES, stock!("s_dist_04");
    STOCK_05 "stock-05" STOCK_TYPES, stock!("s_dist_05");
    STOCK_06 "stock-06" STOCK_TYPES, stock!("s_dist_06");
    STOCK_07 "stock-07" STOCK_TYPES, stock!("s_dist_07");
    STOCK_08 "stock-08" STOCK_TYPES, stock!("s_dist_08");
    STOCK_09 "stock-09" STOCK_TYPES, stock!("s_dist_09");
    STOCK_10 "stock-10" STOCK_TYPES, stock!("s_dist_10");
    NEXT_ORDER "next-order" [INT, INT],
        "UPDATE @district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2 RETURNING d_next_o_id, d_tax";
    INSERT_ORDER "insert-order" [INT, INT, INT, INT, TIMESTAMP, INT, INT],
        "INSERT INTO @orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)";
    INSERT_NEW_ORDER "insert-new-order" [INT, INT, INT],
        "INSERT INTO @new_order (no_w_id, no_d_id, no_o_id) VALUES ($1, $2, $3)";
    INSERT_LINE "insert-line" [INT, INT, INT, INT, INT, INT, INT, NUMERIC, TEXT],
        "INSERT INTO @order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, \
         ol_dist_info) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";

    // Payment, clause 2.5.
    CUSTOMERS_BY_NAME "customers-by-name" [INT, INT, TEXT],
        "SELECT c_id, c_first FROM @customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first";
    PAY_CUSTOMER "pay-customer" [NUMERIC, NUMERIC, TEXT, INT, INT, INT],
        "UPDATE @customer SET c_balance = c_balance - $1, c_ytd_payment = c_ytd_payment + $2, \
         c_payment_cnt = c_payment_cnt + 1, \
         c_data = CASE WHEN c_credit = 'BC' THEN substr($3 || c_data, 1, 500) ELSE c_data END \
         WHERE c_w_id = $4 AND c_d_id = $5 AND c_id = $6 \
         RETURNING c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit, \
         c_credit_lim, c_discount, c_balance, substr(c_data, 1, 200)";
    PAY_DISTRICT "pay-district" [NUMERIC, INT, INT],
        "UPDATE @district SET d_ytd = d_ytd + $1 WHERE d_w_id = $2 AND d_id = $3 \
         RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip";
    PAY_WAREHOUSE "pay-warehouse" [NUMERIC, INT],
        "UPDATE @warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2 \
         RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip";
    INSERT_HISTORY "insert-history" [INT, INT, INT, INT, INT, TIMESTAMP, NUMERIC, TEXT],
        "INSERT INTO @history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";

    // Order-Status, clause 2.6.
    CUSTOMER_STATUS "customer-status" [INT, INT, INT],
        "SELECT c_balance, c_first, c_middle, c_last FROM @customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
    LAST_ORDER "last-order" [INT, INT, INT],
        "SELECT o_id, o_ol_cnt, o_entry_d, o_carrier_id FROM @orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 \
         ORDER BY o_id DESC LIMIT 1";
    LINES_OF_ORDER "lines-of-order" [INT, INT, INT],
        "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM @order_line \
         WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3";

    // Delivery, clause 2.7.
    OLDEST_NEW_ORDER "oldest-new-order" [INT, INT],
        "SELECT no_o_id FROM @new_order WHERE no_w_id = $1 AND no_d_id = $2 ORDER BY no_o_id LIMIT 1";
    DELETE_NEW_ORDER "delete-new-order" [INT, INT, INT],
        "DELETE FROM @new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3";
    DELIVER_ORDER "deliver-order" [INT, INT, INT, INT],
        "UPDATE @orders SET o_carrier_id = $1 WHERE o_w_id = $2 AND o_d_id = $3 AND o_id = $4 RETURNING o_c_id, o_ol_cnt";
    DELIVER_LINES "deliver-lines" [TIMESTAMP, INT, INT, INT],
        "UPDATE @order_line SET ol_delivery_d = $1 WHERE ol_w_id = $2 AND ol_d_id = $3 AND ol_o_id = $4";
    SUM_OF_LINES "sum-of-lines" [INT, INT, INT],
        "SELECT sum(ol_amount), count(*) FROM @order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3";
    DELIVER_TO_CUSTOMER "deliver-to-customer" [NUMERIC, INT, INT, INT],
        "UPDATE @customer SET c_balance = c_balance + $1, c_delivery_cnt = c_delivery_cnt + 1 \
         WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4";

    // Stock-Level, clause 2.8.
    NEXT_ORDER_OF_DISTRICT "next-order-of-district" [INT, INT],
        "SELECT d_next_o_id FROM @district WHERE d_w_id = $1 AND d_id = $2";
    LOW_STOCKS "low-stocks" [INT, INT, INT, INT, INT],
        "SELECT count(DISTINCT s_i_id) FROM @order_line JOIN @stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id \
         WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3 AND ol_o_id < $4 AND s_quantity < $5";
}

/// What takes from a stock, for a district from 1: the column that it returns is the district's.
pub(super) const STOCKS: [&Statement; 10] =
    [&STOCK_01, &STOCK_02, &STOCK_03, &STOCK_04, &STOCK_05, &STOCK_06, &STOCK_07, &STOCK_08, &STOCK_09, &STOCK_10];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_statement_has_a_name_of_its_own_and_its_parameters_in_their_order() {
        let names: HashSet<&str> = ALL.iter().map(|statement| statement.name).collect();
        assert_eq!(names.len(), ALL.len());
        for statement in ALL {
            let numbers: Vec<usize> = statement.sql.split('$').skip(1).map(|rest| rest[..1].parse().unwrap()).collect();
            assert_eq!(numbers, (1..=statement.types.len()).collect::<Vec<usize>>(), "{}", statement.name);
        }
    }
}
