//! Suites name workloads, sizes, targets and steps that there are.

use std::collections::BTreeSet;

use super::drive::{check, filled_in, seconds};
use super::*;

const LENGTHS: [Length; 3] = [Length::Quick, Length::Short, Length::Full];

#[test]
fn every_step_can_be_run_and_every_row_is_of_steps() {
    for suite in SUITES {
        let mut groups = BTreeSet::new();
        for group in suite.groups {
            assert!(groups.insert(group.name), "{} is there twice", group.name);
            assert!(!group.rows.is_empty() && !group.steps.is_empty(), "{}", group.name);
            let steps: BTreeSet<&str> = group.steps.iter().map(|step| step.name).collect();
            assert_eq!(steps.len(), group.steps.len(), "{}", group.name);
            for length in LENGTHS {
                for step in group.steps {
                    check(step, length, group.steps.len() == 1)
                        .unwrap_or_else(|error| panic!("{} {} {}: {error:#}", suite.name, group.name, step.name));
                }
                for row in group.rows {
                    assert!(row.of.iter().all(|step| steps.contains(step)), "{}", row.what);
                    assert!(!filled_in(row.what, length).contains(['{', '}']), "{}", row.what);
                }
            }
        }
    }
}

#[test]
fn the_short_length_is_of_half_an_hour_and_the_quick_one_of_minutes() {
    let bench = SUITES.iter().find(|suite| suite.name == "bench").unwrap();
    let lengths = LENGTHS.map(|length| seconds(bench, length).unwrap());
    assert!(lengths[0] < 300.0 && lengths[1] < 1800.0 && lengths[2] > 3600.0, "{lengths:?}");
}

#[test]
fn sizes_of_texts_are_those_of_the_length() {
    assert_eq!(filled_in("{keys} keys, {churn} times", Length::Full), "1 M keys, 20 times");
    assert_eq!(filled_in("nothing", Length::Short), "nothing");
}
