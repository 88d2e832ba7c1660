//! What the server says about its own commands: COMMAND, and the HELP of commands with subcommands.
//!
//! Called through the command table, and reads nothing but that table.

use super::arguments::{Args, is};
use super::error::{KeyError, Outcome};
use super::table::{COMMANDS, Keys, KnownCommand, find};
use super::{KeySession, Reply, check_length, glob};

/// COMMAND: all of them.
pub(super) fn command(_: &mut KeySession, _: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.array(COMMANDS.len());
    for command in COMMANDS {
        write_details(command, None, reply);
    }
    Ok(())
}

pub(super) fn count(_: &mut KeySession, _: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.integer(COMMANDS.len() as i64);
    Ok(())
}

pub(super) fn info(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if args.len() == 2 {
        return command(session, args, reply);
    }
    reply.array(args.len() - 2);
    for name in args.from(2) {
        match find_full(name) {
            Some((container, command)) => write_details(command, container, reply),
            None => reply.null(),
        }
        check_length(reply)?;
    }
    Ok(())
}

/// A command by its full name, `get` or `client|id`; with the container of a subcommand.
fn find_full(name: &[u8]) -> Option<(Option<&'static KnownCommand>, &'static KnownCommand)> {
    match name.iter().position(|&byte| byte == b'|') {
        None => find(name).map(|command| (None, command)),
        Some(bar) => {
            let container = find(&name[..bar])?;
            Some((Some(container), container.subcommand(&name[bar + 1..])?))
        }
    }
}

fn full_name(command: &KnownCommand, container: Option<&KnownCommand>) -> String {
    match container {
        Some(container) => format!("{}|{}", container.name, command.name),
        None => command.name.to_owned(),
    }
}

fn write_full_name(command: &KnownCommand, container: Option<&KnownCommand>, reply: &mut Reply<'_>) {
    reply.bulk(full_name(command, container).as_bytes());
}

/// The access control categories: they follow from flags and group.
fn categories(command: &KnownCommand) -> impl Iterator<Item = &'static str> + Clone {
    let fast = command.flags.contains(&"fast");
    let access = ["write", "readonly"].into_iter().filter(|flag| command.flags.contains(flag));
    let access = access.map(|flag| if flag == "write" { "write" } else { "read" });
    access.chain(command.group.category()).chain([if fast { "fast" } else { "slow" }])
}

/// The ten fields of COMMAND INFO.
fn write_details(command: &'static KnownCommand, container: Option<&KnownCommand>, reply: &mut Reply<'_>) {
    reply.array(10);
    write_full_name(command, container, reply);
    reply.integer(i64::from(command.arity));
    reply.set(command.flags.len());
    for flag in command.flags {
        reply.simple(flag);
    }
    let Keys { first, last, step } = command.keys;
    for position in [first, last, step] {
        reply.integer(i64::from(position));
    }
    reply.set(categories(command).count());
    for category in categories(command) {
        reply.simple(&format!("@{category}"));
    }
    // Tips: none.
    reply.set(0);
    write_key_specification(command, reply);
    if command.subcommands.is_empty() {
        reply.set(0);
    } else {
        reply.array(command.subcommands.len());
        for subcommand in command.subcommands {
            write_details(subcommand, Some(command), reply);
        }
    }
}

/// Where the keys are, in the form that newer clients read.
fn write_key_specification(command: &KnownCommand, reply: &mut Reply<'_>) {
    let Keys { first, last, step } = command.keys;
    if step == 0 {
        reply.set(0);
        return;
    }
    reply.set(1);
    reply.map(3);
    reply.bulk(b"flags");
    let (access, effect) = if command.flags.contains(&"readonly") { ("RO", "access") } else { ("RW", "update") };
    reply.set(2);
    reply.simple(access);
    reply.simple(effect);
    reply.bulk(b"begin_search");
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(b"index");
    reply.bulk(b"spec");
    reply.map(1);
    reply.bulk(b"index");
    reply.integer(i64::from(first));
    reply.bulk(b"find_keys");
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(b"range");
    reply.bulk(b"spec");
    reply.map(3);
    reply.bulk(b"lastkey");
    // Counted from the first key unless it counts from the end.
    reply.integer(i64::from(if last > 0 { last - first } else { last }));
    reply.bulk(b"keystep");
    reply.integer(i64::from(step));
    reply.bulk(b"limit");
    reply.integer(0);
}

pub(super) fn docs(_: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if args.len() == 2 {
        reply.map(COMMANDS.len());
        for command in COMMANDS {
            write_docs(command, None, reply);
        }
        return Ok(());
    }
    let known = args.from(2).filter_map(find_full);
    reply.map(known.clone().count());
    for (container, command) in known {
        write_docs(command, container, reply);
        check_length(reply)?;
    }
    Ok(())
}

fn write_docs(command: &KnownCommand, container: Option<&KnownCommand>, reply: &mut Reply<'_>) {
    write_full_name(command, container, reply);
    reply.map(if command.subcommands.is_empty() { 3 } else { 4 });
    let fields = [("summary", command.summary), ("since", command.since), ("group", command.group.name())];
    for (field, value) in fields {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    if !command.subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(command.subcommands.len());
        for subcommand in command.subcommands {
            write_docs(subcommand, Some(command), reply);
        }
    }
}

pub(super) fn getkeys(_: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let command = find(args.at(2)).and_then(|command| match command.subcommands {
        [] => Some(command),
        _ => command.subcommand(args.at(3)),
    });
    let command = command.ok_or(KeyError::Redis("ERR Invalid command specified"))?;
    let Keys { first, last, step } = command.keys;
    if step == 0 {
        return Err(KeyError::Redis("ERR The command has no key arguments"));
    }
    let count = args.len() - 2;
    if !command.takes(count) {
        return Err(KeyError::Redis("ERR Invalid number of arguments specified for command"));
    }
    // The arity admits at least one key, and positions are small.
    let last = if last < 0 { count - last.unsigned_abs() as usize } else { last as usize };
    let positions = (first as usize..=last).step_by(step as usize);
    reply.array(positions.clone().count());
    for position in positions {
        reply.bulk(args.at(2 + position));
    }
    Ok(())
}

/// Whether a command of this name is wanted.
type Keep<'a> = Box<dyn Fn(&str, &KnownCommand) -> bool + 'a>;

pub(super) fn list(_: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let keep: Keep<'_> = match args.len() {
        2 => Box::new(|_, _| true),
        5 if is(args.at(2), "filterby") => {
            let wanted = args.at(4);
            if is(args.at(3), "pattern") {
                let pattern = wanted.to_ascii_lowercase();
                Box::new(move |name, _| glob::matches(&pattern, name.as_bytes()))
            } else if is(args.at(3), "aclcat") {
                Box::new(move |_, command| categories(command).any(|category| is(wanted, category)))
            } else if is(args.at(3), "module") {
                Box::new(|_, _| false)
            } else {
                return Err(KeyError::SYNTAX);
            }
        }
        _ => return Err(KeyError::SYNTAX),
    };
    let mut names = Vec::new();
    for command in COMMANDS {
        let subcommands = command.subcommands.iter().map(|subcommand| (Some(command), subcommand));
        for (container, command) in std::iter::once((None, command)).chain(subcommands) {
            let name = full_name(command, container);
            if keep(name.as_str(), command) {
                names.push(name);
            }
        }
    }
    reply.array(names.len());
    for name in names {
        reply.bulk(name.as_bytes());
    }
    Ok(())
}

/// CLIENT HELP and its like: the container's subcommands with their summaries.
pub(super) fn help(_: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let Some(container) = find(args.at(0)) else {
        return Err(KeyError::SYNTAX);
    };
    reply.array(1 + 2 * container.subcommands.len());
    let name = container.name.to_ascii_uppercase();
    reply.simple(&format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for subcommand in container.subcommands {
        reply.simple(&subcommand.name.to_ascii_uppercase());
        reply.simple(&format!("    {}.", subcommand.summary));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::keys::table::Group;

    #[test]
    fn categories_follow_from_flags_and_group() {
        let of = |name: &str| categories(find(name.as_bytes()).unwrap()).collect::<Vec<_>>();
        assert_eq!(of("get"), ["read", "string", "fast"]);
        assert_eq!(of("mset"), ["write", "string", "slow"]);
        assert_eq!(of("del"), ["write", "keyspace", "slow"]);
        assert_eq!(of("ping"), ["connection", "fast"]);
        assert_eq!(of("info"), ["slow"]);
    }

    #[test]
    fn subcommands_have_full_names() {
        let (container, command) = find_full(b"CLIENT|Id").unwrap();
        assert_eq!((container.unwrap().name, command.name), ("client", "id"));
        assert!(find_full(b"client|nothing").is_none());
        assert!(find_full(b"get|x").is_none());
        assert!(command.group == Group::Connection);
    }
}
