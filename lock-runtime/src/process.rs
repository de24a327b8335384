//! What this process is called: its service and its host.

/// The name of the executable, for a service without a name.
pub(crate) fn executable() -> String {
    let path = std::env::current_exe().ok();
    let stem = path.as_deref().and_then(|path| path.file_stem());
    stem.map_or_else(|| "unknown".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

#[cfg(target_os = "linux")]
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn host_name() -> String {
    let name = std::env::var("HOSTNAME").or_else(|_| std::env::var("COMPUTERNAME"));
    name.unwrap_or_else(|_| "unknown".to_owned())
}
