//! One survey a second for all viewers together, and none without a viewer.

use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use lock_runtime::__layer_v1::bound_survey;
use lock_runtime::LockClient;
use lock_runtime::admin::Survey;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::Console;

/// The least time from one survey to the next.
pub(crate) const EVERY: Duration = Duration::from_secs(1);

/// How long a survey waits for clients that hang.
const PATIENCE: Duration = Duration::from_millis(800);

/// How many pages of names a survey asks the server for, of some 256 keys each: other programs need the server, too.
const PAGES: usize = 100;

/// After how many checked keys a survey asks for no more pages. Each is a call of a script.
const CHECKS: usize = 5_000;

/// How many locks a page shows.
const LIMIT: usize = 5_000;

/// What viewers are shown: a survey as JSON, or the sentence of an error.
pub(crate) type Shown = Result<Arc<str>, Arc<str>>;

pub(crate) struct Surveys {
    client: LockClient,
    state: Mutex<Viewing>,
}

#[derive(Default)]
struct Viewing {
    /// The last survey, for viewers. Viewers keep it; the task ends when there is none.
    viewers: Weak<watch::Sender<Option<Shown>>>,
    /// When the last survey began: also between two tasks there is at most one a second.
    last: Option<Instant>,
}

/// A viewer's view: it keeps the surveys going, and never has more than the latest.
pub(crate) struct View {
    pub(crate) latest: watch::Receiver<Option<Shown>>,
    _keeps: Arc<watch::Sender<Option<Shown>>>,
}

impl Surveys {
    pub(crate) fn of(client: LockClient) -> Arc<Self> {
        Arc::new(Self { client, state: Mutex::default() })
    }

    /// Begins to view, and to survey if there was no viewer.
    pub(crate) fn view(self: &Arc<Self>) -> View {
        let mut state = self.state.lock();
        let keeps = state.viewers.upgrade().unwrap_or_else(|| {
            let viewers = Arc::new(watch::Sender::new(None));
            state.viewers = Arc::downgrade(&viewers);
            tokio::spawn(survey_on(Arc::downgrade(self), Arc::downgrade(&viewers)));
            viewers
        });
        let mut latest = keeps.subscribe();
        // The last survey is shown at once, if there is one.
        latest.mark_changed();
        View { latest, _keeps: keeps }
    }

    /// The time of the next survey, which is taken by asking for it.
    fn next(&self) -> Instant {
        let mut state = self.state.lock();
        let now = Instant::now();
        let next = state.last.map_or(now, |last| now.max(last + EVERY));
        state.last = Some(next);
        next
    }

    async fn survey(&self) -> Shown {
        let survey = bound_survey(self.client.admin().survey().limit(LIMIT), PAGES, CHECKS);
        let survey = survey.within(PATIENCE).await;
        match survey {
            Ok(survey) => Ok(as_json(&survey)),
            Err(error) => Err(sentence(&error).into()),
        }
    }
}

/// Surveys for as long as there are viewers.
async fn survey_on(surveys: Weak<Surveys>, viewers: Weak<watch::Sender<Option<Shown>>>) {
    loop {
        let Some(next) = surveys.upgrade().map(|surveys| surveys.next()) else { return };
        sleep_until(next).await;
        let (Some(surveys), true) = (surveys.upgrade(), viewers.strong_count() > 0) else { return };
        let shown = surveys.survey().await;
        let Some(viewers) = viewers.upgrade() else { return };
        viewers.send_replace(Some(shown));
    }
}

fn as_json(survey: &Survey) -> Arc<str> {
    // A survey has text keys only, so it always serializes.
    serde_json::to_string(survey).unwrap_or_default().into()
}

/// The error and its causes.
pub(crate) fn sentence(error: &dyn std::error::Error) -> String {
    let mut sentence = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !sentence.contains(&cause_text) {
            sentence = format!("{sentence}: {cause_text}");
        }
        source = cause.source();
    }
    sentence
}

/// The next survey, as JSON.
pub(crate) async fn survey(State(console): State<Arc<Console>>) -> Response {
    let mut view = console.surveys.view();
    let shown = match view.latest.wait_for(Option::is_some).await {
        Ok(shown) => shown.clone(),
        Err(_) => None,
    };
    match shown {
        Some(Ok(json)) => {
            ([(http::header::CONTENT_TYPE, "application/json")], json.to_string()).into_response()
        }
        Some(Err(error)) => {
            (StatusCode::BAD_GATEWAY, Json(json!({ "error": &*error }))).into_response()
        }
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}
