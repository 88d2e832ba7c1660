//! Rows of the tables of TPC-DS, as lines of COPY's text form.

use std::fmt::Display;
use std::io::Write;

use anyhow::{Context, Result};
use tpcdsgen::config::{Session, SessionBuilder, Table};
use tpcdsgen::row::{
    CallCenterRowGenerator, CatalogPageRowGenerator, CatalogReturnsRowGenerator, CatalogSalesRowGenerator,
    CustomerAddressRowGenerator, CustomerDemographicsRowGenerator, CustomerRowGenerator, DateDimRowGenerator,
    HouseholdDemographicsRowGenerator, IncomeBandRowGenerator, InventoryRowGenerator, ItemRowGenerator,
    PromotionRowGenerator, ReasonRowGenerator, ShipModeRowGenerator, StoreReturnsRowGenerator, StoreRowGenerator,
    StoreSalesRowGenerator, TimeDimRowGenerator, WarehouseRowGenerator, WebPageRowGenerator, WebReturnsRowGenerator,
    WebSalesRowGenerator, WebSiteRowGenerator,
};

use super::Lines;

/// The table of this name.
fn table(name: &str) -> Option<Table> {
    Table::values().iter().copied().find(|table| table.get_name() == name)
}

/// What the generator makes at a scale factor, as the C program of the specification does.
fn session(scale: f64) -> Result<Session> {
    SessionBuilder::new().with_scale_factor(scale).build().map_err(|error| anyhow::anyhow!("{error}"))
}

/// About how many rows a table has. Of sales the generator counts orders: those of a catalog have nine items each and others twelve,
/// and a tenth of all comes back.
pub(super) fn about(name: &str, scale: f64) -> Result<u64> {
    let table = table(name).with_context(|| format!("a table {name}"))?;
    let count = |table| Ok(session(scale)?.get_scaling().get_row_count(table));
    match table {
        Table::StoreSales | Table::WebSales => Ok(12 * count(table)?),
        Table::CatalogSales => Ok(9 * count(table)?),
        Table::StoreReturns => Ok(count(Table::StoreSales)? * 12 / 10),
        Table::WebReturns => Ok(count(Table::WebSales)? * 12 / 10),
        Table::CatalogReturns => Ok(count(Table::CatalogSales)? * 9 / 10),
        table => count(table),
    }
}

/// The rows of a table, in the generator's order; none of one that there is not.
pub(super) fn lines(name: &str, scale: f64) -> Lines {
    // The schema has been read with both.
    let (Some(table), Ok(session)) = (table(name), session(scale)) else { return Box::new(|_| false) };
    let source = match table {
        Table::StoreReturns => Table::StoreSales,
        Table::CatalogReturns => Table::CatalogSales,
        Table::WebReturns => Table::WebSales,
        table => table,
    };
    let count = session.get_scaling().get_row_count(source);
    match table {
        Table::CallCenter => written(CallCenterRowGenerator::new(session, count)),
        Table::CatalogPage => written(CatalogPageRowGenerator::new(session, count)),
        Table::CatalogReturns => written(CatalogReturnsRowGenerator::new(session, count)),
        Table::CatalogSales => written(CatalogSalesRowGenerator::new(session, count)),
        Table::Customer => written(CustomerRowGenerator::new(session, count)),
        Table::CustomerAddress => written(CustomerAddressRowGenerator::new(session, count)),
        Table::CustomerDemographics => written(CustomerDemographicsRowGenerator::new(session, count)),
        Table::DateDim => written(DateDimRowGenerator::new(session, count)),
        Table::HouseholdDemographics => written(HouseholdDemographicsRowGenerator::new(session, count)),
        Table::IncomeBand => written(IncomeBandRowGenerator::new(session, count)),
        Table::Inventory => written(InventoryRowGenerator::new(session, count)),
        Table::Item => written(ItemRowGenerator::new(session, count)),
        Table::Promotion => written(PromotionRowGenerator::new(session, count)),
        Table::Reason => written(ReasonRowGenerator::new(session, count)),
        Table::ShipMode => written(ShipModeRowGenerator::new(session, count)),
        Table::Store => written(StoreRowGenerator::new(session, count)),
        Table::StoreReturns => written(StoreReturnsRowGenerator::new(session, count)),
        Table::StoreSales => written(StoreSalesRowGenerator::new(session, count)),
        Table::TimeDim => written(TimeDimRowGenerator::new(session, count)),
        Table::Warehouse => written(WarehouseRowGenerator::new(session, count)),
        Table::WebPage => written(WebPageRowGenerator::new(session, count)),
        Table::WebReturns => written(WebReturnsRowGenerator::new(session, count)),
        Table::WebSales => written(WebSalesRowGenerator::new(session, count)),
        Table::WebSite => written(WebSiteRowGenerator::new(session, count)),
        // What the generator says of itself is none of the 24.
        Table::DbgenVersion => Box::new(|_| false),
    }
}

/// Rows in the generator's own form, which ends every value with `|` and has nothing where one is NULL. No value has a `|`, a tab or a
/// backslash in it.
fn written<T: Display>(mut rows: impl Iterator<Item = T> + 'static) -> Lines {
    let mut row = Vec::new();
    Box::new(move |out| {
        let Some(next) = rows.next() else { return false };
        row.clear();
        // Writing to a vector cannot fail.
        let _ = write!(row, "{next}");
        row.pop();
        for (place, value) in row.split(|byte| *byte == b'|').enumerate() {
            if place > 0 {
                out.push(b'\t');
            }
            out.extend_from_slice(if value.is_empty() { b"\\N" } else { value });
        }
        out.push(b'\n');
        true
    })
}
