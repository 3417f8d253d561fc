//! The cases of `fixtures/cases.json`: a kernel launch, or several, and the results that it must give.

mod run;
mod schema;
mod value;

pub use run::{Form, run};
pub use schema::{Case, load};
