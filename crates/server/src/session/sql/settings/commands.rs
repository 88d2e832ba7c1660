//! SET, SHOW and their function forms, where more than the settings is involved: the modes of the current transaction
//! are settings too.
//!
//! Called where commands of the session are run, and where a statement that may read settings is planned.

use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result, Value};
use ashlar_query::Setting;
use ashlar_query::statement::configure::{Function, Item};

use super::SHARDED_SERVER;
use crate::session::sql::SqlSession;
use crate::session::sql::sharded::check_named;

impl SqlSession {
    /// SET; without a value RESET and SET ... TO DEFAULT.
    pub(in crate::session::sql) fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<()> {
        match self.set_own_mode(name, value) {
            Some(done) => done,
            None => {
                if let Some(server) = value.filter(|_| name.eq_ignore_ascii_case(SHARDED_SERVER)) {
                    check_named(&self.shared, server)?;
                }
                self.settings.set(name, value, local)?;
                self.review_keep();
                Ok(())
            }
        }
    }

    /// SHOW: what is in force now, which for a transaction's own modes its settings do not know.
    pub(in crate::session::sql) fn show(&self, name: &str) -> Result<String> {
        match self.show_own_mode(name) {
            Some(mode) => Ok(mode.to_owned()),
            None => self.settings.show(name),
        }
    }

    /// All settings in the order of their names.
    pub(in crate::session::sql) fn all_settings(&self) -> Arc<[Setting]> {
        let all = self.settings.all();
        let own_mode = |setting: &Setting| {
            let mode = setting.name.starts_with("transaction_").then(|| self.show_own_mode(setting.name)).flatten();
            mode.filter(|mode| *mode != setting.value.as_str())
        };
        if all.iter().all(|setting| own_mode(setting).is_none()) {
            return all;
        }
        let in_force = |setting: &Setting| match own_mode(setting) {
            Some(mode) => Setting { value: mode.to_owned(), shown: mode.to_owned(), ..setting.clone() },
            None => setting.clone(),
        };
        all.iter().map(in_force).collect()
    }

    /// SHOW ALL
    pub(in crate::session::sql) fn show_all(&self) -> Vec<Vec<Value>> {
        let texts = |setting: &Setting| vec![setting.name.to_owned(), setting.shown.clone(), setting.about.to_owned()];
        let row = |setting: &Setting| texts(setting).into_iter().map(|text| Value::Text(text.into())).collect();
        self.all_settings().iter().map(row).collect()
    }

    /// The row of a SELECT of `set_config` and `current_setting`.
    pub(in crate::session::sql) fn configure(&mut self, items: &[Item], parameters: &[Value]) -> Result<Vec<Value>> {
        let mut row = Vec::with_capacity(items.len());
        for item in items {
            row.push(match &item.function {
                Function::SetConfig([name, value, local]) => {
                    let Some(name) = name.text(parameters) else {
                        return Err(Error::new(ErrorCode::NullValueNotAllowed, "SET requires parameter name"));
                    };
                    let is_local = local.text(parameters).as_deref().and_then(super::boolean).unwrap_or(false);
                    self.set(&name, value.text(parameters).as_deref(), is_local)?;
                    Value::Text(self.show(&name)?.into())
                }
                Function::Notify([channel, payload]) => {
                    let channel = channel.text(parameters).unwrap_or_default();
                    let wish = self.notification(&channel, &payload.text(parameters).unwrap_or_default());
                    self.wish(wish)?;
                    Value::Text("".into())
                }
                Function::CurrentSetting(name, missing_ok) => {
                    let missing = missing_ok.as_ref().map(|missing| missing.text(parameters));
                    match (name.text(parameters), missing) {
                        (None, _) | (_, Some(None)) => Value::Null,
                        (Some(name), Some(Some(missing)))
                            if super::boolean(&missing) == Some(true) && self.settings.number(&name).is_err() =>
                        {
                            Value::Null
                        }
                        (Some(name), _) => Value::Text(self.show(&name)?.into()),
                    }
                }
            });
        }
        Ok(row)
    }
}
