//! Names the tasks that DataFusion starts by itself, one for each stream of an operator that runs concurrently with
//! others: profiles then show where they wait, below the statement that they work for. See [`ashlar_base::scope`].
//!
//! Called once by the engine.

use std::any::Any;

use ashlar_base::scope::{self, Name};
use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use futures::FutureExt;
use futures::future::BoxFuture;

static OPERATOR: Name = Name::new("operator");

type Outcome = Box<dyn Any + Send>;

struct Named;

impl JoinSetTracer for Named {
    fn trace_future(&self, future: BoxFuture<'static, Outcome>) -> BoxFuture<'static, Outcome> {
        scope::task(&OPERATOR, future).boxed()
    }

    fn trace_block(&self, work: Box<dyn FnOnce() -> Outcome + Send>) -> Box<dyn FnOnce() -> Outcome + Send> {
        Box::new(scope::work(&OPERATOR, work))
    }
}

/// From now on they have their name.
pub(crate) fn name() {
    // It can be said once in a process, which tests with several engines are told here.
    let _ = set_join_set_tracer(&Named);
}
