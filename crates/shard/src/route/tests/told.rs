//! Errors of shards whose tables have names of their own.

use ashlar_base::Error;

use super::World;
use crate::route::told_here;

/// The error of a shard of `h`, which is `h_2` on `s0`, as a client is told it: message, table and constraint.
fn told(state: &[u8; 5], message: &str, constraint: Option<&str>, server: &str) -> (String, String, String) {
    let world = World::new();
    let tables: Vec<_> = world.0.iter().filter(|table| ["a", "h"].contains(&&*table.name)).cloned().collect();
    let mut error = Error::of_shard(*state, message).with_table("h_2").with_context(format!("shard {server}"));
    if let Some(constraint) = constraint {
        error = error.with_constraint(constraint);
    }
    let error = told_here(error, &tables);
    assert_eq!(error.sqlstate().as_bytes(), state);
    let field = |field: &Option<String>| field.clone().unwrap_or_default();
    (error.message().to_owned(), field(&error.fields().table), field(&error.fields().constraint))
}

#[test]
fn names_of_a_shard_are_told_as_they_are_here() {
    let of = |message: &str, constraint: &str| (message.to_owned(), "h".to_owned(), constraint.to_owned());
    let unique = |name: &str| format!("duplicate key value violates unique constraint \"{name}\"");
    // With no name of its own, and with one.
    for (there, here) in [("h_2_pkey", "h_pkey"), ("h_2_x_t_key", "h_x_t_key"), ("mine_2", "mine"), ("other", "other")]
    {
        assert_eq!(told(b"23505", &unique(there), Some(there), "s0"), of(&unique(here), here));
    }
    let message = "null value in column \"k\" of relation \"h_2\" violates not-null constraint";
    assert_eq!(told(b"23502", message, None, "s0"), of(&message.replace("h_2", "h"), ""));
    // A CHECK has one name everywhere.
    let message = "new row for relation \"h_2\" violates check constraint \"c_2\"";
    assert_eq!(told(b"23514", message, Some("c_2"), "s0"), of(&message.replace("h_2", "h"), "c_2"));
    assert_eq!(told(b"42501", "permission denied for table h_2", None, "s0").0, "permission denied for table h");
}

#[test]
fn what_is_not_a_name_of_the_shard_stays() {
    // That server has no such table.
    let message = "relation \"h_2\" does not exist";
    assert_eq!(told(b"42P01", message, None, "s1"), (message.to_owned(), "h_2".to_owned(), String::new()));
    let message = "invalid input syntax for type integer: \"h_2\"";
    assert_eq!(told(b"22P02", message, None, "s0").0, message);
    let error = Error::internal("relation \"h_2\" is ours");
    assert_eq!(told_here(error.clone(), &World::new().0), error);
}

#[test]
fn details_and_places_name_tables_too() {
    let error = Error::of_shard(
        *b"23503",
        "update or delete on table \"h_0\" violates foreign key constraint \"f\" on table \"g\"",
    )
    .with_detail("Key (k)=(table \"h_0\".) is still referenced from table \"h_0\".")
    .with_context("COPY h_0, line 1\nshard s0");
    let error = told_here(error, &World::new().0);
    assert_eq!(error.message(), "update or delete on table \"h\" violates foreign key constraint \"f\" on table \"g\"");
    assert_eq!(
        error.fields().detail.as_deref(),
        Some("Key (k)=(table \"h_0\".) is still referenced from table \"h\".")
    );
    assert_eq!(error.fields().context.as_deref(), Some("COPY h, line 1\nshard s0"));
}
