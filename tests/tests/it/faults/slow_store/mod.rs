//! A store that answers late, or not at all: renewals, and callers that do not wait.

mod late_answers;
mod outages;
mod renewals;
mod tries;

use crate::prelude::*;
