//! `lockctl console`: serves the console alone.

use axum::Router;
use lock_console::ConsoleOptions;
use lock_runtime::LockClient;
use tokio::net::TcpListener;

use crate::answer::Answer;
use crate::args::Console;
use crate::failure::Failure;

pub(super) async fn console(client: &LockClient, console: &Console) -> Result<Answer, Failure> {
    let Console { listen, allow_release, host, token } = console;
    let mut options = ConsoleOptions::new().allow_release(*allow_release);
    match token {
        Some(token) if token.trim().is_empty() => {
            return Err(Failure::usage(
                "the token is empty; give a --token that viewers can give, or leave out --token and LOCK_CONSOLE_TOKEN",
            ));
        }
        Some(token) => options = options.bearer_token(token).hosts(host.clone()),
        // Another site may give its own name this address; its page must not count as this one.
        _ if listen.ip().is_loopback() => {
            let own = [listen.ip().to_string(), format!("[{}]", listen.ip())];
            let loopback = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned);
            options = options.hosts(loopback.into_iter().chain(own).chain(host.clone()));
        }
        _ => {
            return Err(Failure::usage(format!(
                "{listen} can be reached from other machines; give a --token, or listen on 127.0.0.1"
            )));
        }
    }
    let cannot =
        |error: std::io::Error| Failure::usage(format!("cannot listen on {listen}: {error}"));
    let listener = TcpListener::bind(listen).await.map_err(cannot)?;
    let own = listener.local_addr().map_err(cannot)?;
    if !crate::write(&format!("the console is at http://{own}/\n"))? {
        return Ok(Answer::end());
    }
    let router: Router = lock_console::router(client.clone(), options);
    let served = axum::serve(listener, router).await;
    served
        .map(|()| Answer::end())
        .map_err(|error| Failure::store(format!("the console has ended: {error}")))
}
