//! What SET, SET LOCAL, RESET and savepoints leave behind, against a naive twin that copies all settings.

use proptest::prelude::*;

use super::*;

fn settings() -> Settings {
    Settings::new(&Config::default(), &[("user", "test")]).unwrap()
}

fn shown(settings: &Settings, name: &str) -> String {
    // Of one that nobody has set there is nothing.
    settings
        .number(name)
        .map_or_else(|_| String::new(), |number| table::usual(number, &settings.values[number]).to_owned())
}

#[test]
fn the_page_of_settings_names_all_that_can_be_set() {
    let page = include_str!("../../../../../../docs/reference/settings.md");
    for (name, _, rule, _) in SETTINGS {
        assert!(matches!(rule, Rule::Fixed) || page.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn a_session_value_outlives_the_local_value_that_hid_it() {
    let mut settings = settings();
    settings.set("application_name", Some("local"), true).unwrap();
    settings.set("application_name", Some("session"), false).unwrap();
    settings.end_transaction(true);
    assert_eq!(shown(&settings, "application_name"), "session");

    settings.set("application_name", Some("next"), false).unwrap();
    settings.set("application_name", Some("local"), true).unwrap();
    assert_eq!(shown(&settings, "application_name"), "local");
    settings.end_transaction(true);
    assert_eq!(shown(&settings, "application_name"), "next");

    settings.set("application_name", Some("local"), true).unwrap();
    settings.set("application_name", Some("session"), false).unwrap();
    settings.end_transaction(false);
    assert_eq!(shown(&settings, "application_name"), "next");
}

#[test]
fn clients_are_told_what_is_in_force_and_only_if_they_do_not_know() {
    let mut settings = settings();
    settings.set("application_name", Some("a"), false).unwrap();
    settings.set("application_name", Some("b"), false).unwrap();
    assert_eq!(settings.take_changes(), [("application_name", "b".to_owned())]);
    settings.set("application_name", Some("c"), false).unwrap();
    settings.end_transaction(false);
    assert_eq!(settings.take_changes(), [("application_name", String::new())]);
    settings.set("application_name", Some("d"), false).unwrap();
    settings.end_transaction(false);
    assert!(settings.take_changes().is_empty());
}

fn told_to_shards(settings: &Settings) -> Vec<String> {
    settings.of_shards.carried.iter().map(|given| format!("{}={}", given.name, given.value)).collect()
}

#[test]
fn shards_are_told_what_was_given_and_nothing_else() {
    let mut settings = settings();
    assert!(told_to_shards(&settings).is_empty());
    // The usual value too: a server may have another.
    settings.set("synchronous_commit", Some("true"), false).unwrap();
    settings.set("work_mem", Some("64MB"), true).unwrap();
    settings.set("random_page_cost", Some("1.1"), true).unwrap();
    assert_eq!(told_to_shards(&settings), ["random_page_cost=1.1", "synchronous_commit=on", "work_mem=65536"]);
    settings.end_transaction(true);
    assert_eq!(told_to_shards(&settings), ["synchronous_commit=on"]);
    settings.set("synchronous_commit", None, false).unwrap();
    settings.end_transaction(true);
    settings.set("jit", Some("on"), false).unwrap();
    settings.end_transaction(false);
    assert!(told_to_shards(&settings).is_empty());

    let config = Config::default();
    let mut begun = Settings::new(&config, &[("user", "test"), ("options", "-c enable_seqscan=off")]).unwrap();
    begun.set("enable_seqscan", Some("on"), false).unwrap();
    assert_eq!(told_to_shards(&begun), ["enable_seqscan=on"]);
    begun.reset_all().unwrap();
    assert_eq!(told_to_shards(&begun), ["enable_seqscan=off"]);
}

#[test]
fn what_was_not_given_is_told_as_usual() {
    let mut settings = settings();
    for (name, usual, unit) in [("work_mem", "4MB", Some("kB")), ("effective_cache_size", "4GB", Some("8kB"))] {
        let all = settings.all();
        let listed = all.iter().find(|setting| setting.name == name).unwrap();
        assert_eq!((listed.shown.as_str(), listed.unit, &listed.value), (usual, unit, &listed.reset), "{name}");
        assert_eq!(settings.show(name).unwrap(), usual);
    }
    settings.set("work_mem", Some("8MB"), false).unwrap();
    assert!(settings.all().iter().any(|setting| setting.name == "work_mem" && setting.value == "8192"));
    settings.end_transaction(false);
    assert!(settings.all().iter().any(|setting| setting.name == "work_mem" && setting.value == "4096"));
}

#[test]
fn what_a_transaction_notes_does_not_grow_with_the_number_of_its_settings() {
    let mut settings = settings();
    for _ in 0..1000 {
        settings.mark();
        settings.set("application_name", Some("x"), false).unwrap();
        settings.set("statement_timeout", Some("5"), true).unwrap();
        settings.release(0);
    }
    assert!(settings.undo.len() <= 2);
}

#[derive(Clone, Debug)]
enum Step {
    Set { number: usize, value: u8, local: bool },
    Reset { number: usize, local: bool },
    ResetAll,
    Savepoint,
    Release(usize),
    RollbackTo(usize),
    End { committed: bool },
}

const NAMES: [&str; 4] = ["application_name", "statement_timeout", "lock_timeout", "app.tenant"];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..4usize, any::<u8>(), any::<bool>()).prop_map(|(number, value, local)| Step::Set { number, value, local }),
        1 => (0..4usize, any::<bool>()).prop_map(|(number, local)| Step::Reset { number, local }),
        1 => Just(Step::ResetAll),
        3 => Just(Step::Savepoint),
        2 => (0..4usize).prop_map(Step::Release),
        2 => (0..4usize).prop_map(Step::RollbackTo),
        1 => any::<bool>().prop_map(|committed| Step::End { committed }),
    ]
}

/// In force, and the session's own, of the four settings.
type Picture = [(String, String); 4];

proptest! {
    #[test]
    fn settings_are_those_of_a_twin_that_copies_them_at_every_savepoint(
        steps in proptest::collection::vec(step(), 0..60)
    ) {
        let mut settings = settings();
        let initial: Picture = NAMES.map(|name| (shown(&settings, name), shown(&settings, name)));
        let (mut twin, mut begin) = (initial.clone(), initial.clone());
        let mut savepoints: Vec<(usize, Picture)> = Vec::new();
        for step in steps {
            match step {
                Step::Set { number, value, local } => {
                    let value = value.to_string();
                    settings.set(NAMES[number], Some(&value), local).unwrap();
                    let own = if local { twin[number].1.clone() } else { value.clone() };
                    twin[number] = (value, own);
                }
                Step::Reset { number, local } => {
                    settings.set(NAMES[number], None, local).unwrap();
                    let own = if local { twin[number].1.clone() } else { initial[number].0.clone() };
                    twin[number] = (initial[number].0.clone(), own);
                }
                Step::ResetAll => {
                    settings.reset_all().unwrap();
                    twin = initial.clone();
                }
                Step::Savepoint => savepoints.push((settings.mark(), twin.clone())),
                Step::Release(place) if place < savepoints.len() => {
                    savepoints.truncate(place);
                    settings.release(savepoints.last().map_or(0, |(mark, _)| *mark));
                }
                Step::RollbackTo(place) if place < savepoints.len() => {
                    savepoints.truncate(place + 1);
                    settings.rollback_to(savepoints[place].0);
                    twin = savepoints[place].1.clone();
                }
                Step::Release(_) | Step::RollbackTo(_) => {}
                Step::End { committed } => {
                    savepoints.clear();
                    settings.end_transaction(committed);
                    if committed {
                        twin = twin.map(|(_, own)| (own.clone(), own));
                    } else {
                        twin = begin;
                    }
                    begin = twin.clone();
                }
            }
            for (number, name) in NAMES.iter().enumerate() {
                prop_assert_eq!(&shown(&settings, name), &twin[number].0);
            }
        }
    }
}
