//! `rediss://`: private authorities, client certificates, and what is refused.

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, PKCS_ED25519, date_time_ymd};

use crate::prelude::*;
use crate::support::authority::{Authority, Identity};

/// An authority and a server at 127.0.0.1 that it has certified.
async fn authority_and_server() -> (Authority, RedisServer) {
    let authority = Authority::new("ours");
    let server = authority.issue_for("127.0.0.1").server().start().await;
    (authority, server)
}

async fn try_connect(url: &str, tls: TlsOptions) -> Result<LockClient, LockError> {
    LockClient::builder().tls(tls).connect(url).await
}

async fn connect(server: &RedisServer, tls: TlsOptions) -> LockClient {
    try_connect(&server.url(), tls).await.unwrap()
}

/// The error's kind and its sentence, which must come at once.
async fn refused(url: &str, tls: TlsOptions) -> (StoreErrorKind, String) {
    let start = Instant::now();
    let error = try_connect(url, tls).await.unwrap_err();
    assert!(start.elapsed() < patience(secs(3)), "{:?}", start.elapsed());
    kind_and_sentence(error)
}

/// Asserts that it is refused for what the options or the certificate are.
async fn refused_for(url: &str, tls: TlsOptions, says: &str) {
    let (kind, sentence) = refused(url, tls).await;
    assert_eq!(kind, StoreErrorKind::Config, "{sentence}");
    assert!(sentence.contains(says), "expected {says:?}: {sentence}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_work_with_a_private_authority() {
    let authority = Authority::new("ours");
    let server = authority.issue_for("127.0.0.1").server().password("secret").start().await;
    // Only a notice wakes the waiter soon: the lease and the cap are longer than the test.
    let builder = LockClient::builder().poll_cap(secs(60)).tls(authority.trusted());
    let client = builder.connect(&server.url()).await.unwrap();
    let holder = connect(&server, authority.trusted()).await;
    let guard = holder.mutex("t").lock().await.unwrap();
    let waiter = lock_tests::spawn(client.mutex("t").lock());
    server.wait_for_subscribers("redisson_lock__channel:{t}", 1).await;
    guard.release().await.unwrap();
    let guard = timeout(SOON, waiter).await.expect("no notice came").unwrap().unwrap();
    guard.release().await.unwrap();

    let lease = LockOptions::new().lease(Lease::Watchdog(ms(600)));
    let guard = holder.mutex("t").with(lease).lock().await.unwrap();
    let first_deadline = Instant::now() + guard.remaining();
    soon!("it is renewed", Instant::now() > first_deadline);
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
    assert!(!server.client().exists("t").await);
}

/// Each certificate that is not to be trusted is one clear error, at once, and not taken for a
/// server that is away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_untrusted_server_is_refused_clearly() {
    let (authority, server) = authority_and_server().await;
    let (other, namesake) = (Authority::new("other"), Authority::new("ours"));
    let issuer = "the one of the authority that issued it with `TlsOptions::root_certificate`";
    for tls in [
        TlsOptions::new(),
        other.trusted(),
        namesake.trusted(),
        authority.issue_for("client").shown_with(TlsOptions::new()),
    ] {
        refused_for(&server.url(), tls, issuer).await;
    }
    let plain = LockClient::connect(&server.url()).await.unwrap_err();
    assert!(!plain.is_retryable(), "{plain:?}");
    assert!(kind_and_sentence(plain).1.contains(issuer));

    let localhost = server.url().replace("127.0.0.1", "localhost");
    refused_for(&localhost, authority.trusted(), "another host name").await;

    let good = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let (mut expired, mut early, mut authoritative) = (good.clone(), good.clone(), good);
    expired.not_after = date_time_ymd(2001, 1, 1);
    early.not_before = date_time_ymd(4000, 1, 1);
    authoritative.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    for (params, says) in [
        (expired, "expired or is not valid yet"),
        (early, "expired or is not valid yet"),
        (authoritative, "cannot be trusted as it is"),
    ] {
        let server = authority.issue(&params).server().start().await;
        refused_for(&server.url(), authority.trusted(), says).await;
    }

    // Several authorities, in one PEM or in several, all count.
    let bundle = [other.pem.as_str(), &authority.pem].concat();
    for tls in [
        TlsOptions::new().root_certificate(bundle),
        authority.trusted().root_certificate(other.pem.as_str()),
        TlsOptions::new().root_certificate(other.pem.trim_end()).root_certificate(authority.pem),
    ] {
        connect(&server, tls).await.mutex("ok").lock().await.unwrap().release().await.unwrap();
    }
}

/// S-33: a certificate that goes bad is said at once to whoever locks, and recovered from.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_goes_bad_is_reported_until_it_is_good() {
    let (authority, server) = authority_and_server().await;
    let client = connect(&server, authority.trusted()).await;
    let bad = Authority::new("other").issue_for("127.0.0.1");
    server.replace_certificate(&bad.certificate, &bad.key);
    server.restart().await;
    soon!("the refusal is reported", {
        let error = client.mutex("x").try_lock().await.unwrap_err();
        let (kind, sentence) = kind_and_sentence(error);
        kind == StoreErrorKind::Config && sentence.contains("is not trusted")
    });
    let start = Instant::now();
    client.mutex("x").lock().await.unwrap_err();
    assert!(start.elapsed() < patience(secs(1)), "{:?}", start.elapsed());
    let good = authority.issue_for("127.0.0.1");
    server.replace_certificate(&good.certificate, &good.key);
    server.restart().await;
    soon!("it works again", client.mutex("x").try_lock().await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_wants_client_certificates_gets_them() {
    let (authority, other) = (Authority::new("ours"), Authority::new("other"));
    for version in ["TLSv1.2", "TLSv1.3"] {
        let builder = authority.issue_for("127.0.0.1").server().client_authority(&authority.pem);
        let server = builder.arg("--tls-protocols", version).start().await;
        let tls = authority.issue_for("client").shown_with(authority.trusted());
        let client = connect(&server, tls).await;
        let guard = client.mutex("m").lock().await.unwrap();
        let token = guard.token();
        guard.release().await.unwrap();
        // S-33: the connection is made again, with the same authority and client certificate.
        server.restart().await;
        let next = timeout(SOON, client.mutex("m").lock()).await.expect("stranded").unwrap();
        assert!(next.token() > token, "{version}");
        next.release().await.unwrap();
        for tls in [authority.trusted(), other.issue_for("client").shown_with(authority.trusted())]
        {
            let (kind, sentence) = refused(&server.url(), tls).await;
            assert_eq!(kind, StoreErrorKind::Denied, "{version}: {sentence}");
            assert!(sentence.contains("`TlsOptions::client_certificate`"), "{version}: {sentence}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unusable_options_fail_before_anything_is_sent() {
    let authority = Authority::new("ours");
    let Identity { certificate, key } = authority.issue_for("client");
    let other = authority.issue_for("client").key;
    let ed25519 = KeyPair::generate_for(&PKCS_ED25519).unwrap().serialize_pem();
    let one_line = key.replace('\n', " ");
    let broken = authority.pem.replace("-----END", "%%-----END");
    let hollow = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let shown = |chain: &str, key: &str| authority.trusted().client_certificate(chain, key);
    let cases = [
        (TlsOptions::new().root_certificate(""), "root certificate"),
        (TlsOptions::new().root_certificate("nonsense"), "root certificate"),
        (TlsOptions::new().root_certificate(broken), "root certificate"),
        (TlsOptions::new().root_certificate(hollow), "root certificate"),
        (TlsOptions::new().root_certificate(key.as_str()), "root certificate"),
        (authority.trusted().root_certificate("nonsense"), "root certificate"),
        (shown("", &key), "the client certificate"),
        (shown(&key, &key), "the client certificate"),
        (shown(hollow, &key), "the client certificate"),
        (shown(&certificate, ""), "key"),
        (shown(&certificate, &certificate), "key"),
        (shown(&certificate, &one_line), "key"),
        (shown(&certificate, &key.replace("-----END", "%%-----END")), "key"),
        (shown(&certificate, &other), "do not belong together"),
        (shown(&certificate, &ed25519), "do not belong together"),
    ];
    let secret = key.lines().nth(1).unwrap();
    let digits = secret.bytes().take(8).map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ");
    for (tls, says) in cases {
        let shown = format!("{tls:?} {:?}", LockClient::builder().tls(tls.clone()));
        // No client listens there: what is said first is about the options.
        let error = RedisStore::connect_with_tls("rediss://127.0.0.1:1", &tls).await.unwrap_err();
        let cause = error.source().map(ToString::to_string);
        let everything = format!("{shown} {error} {error:?} {cause:?}");
        assert_eq!(error.kind(), StoreErrorKind::Config, "{everything}");
        assert!(error.to_string().contains(says), "expected {says:?}: {everything}");
        assert!(!everything.contains(&secret[..8]), "the key shows: {everything}");
        assert!(!everything.contains(&digits), "the key shows: {everything}");
    }
    for url in ["redis://:wrong-one@127.0.0.1:1", "unix:///no/such/socket"] {
        let (kind, sentence) = refused(url, authority.trusted()).await;
        assert_eq!(kind, StoreErrorKind::Config, "{sentence}");
        assert!(sentence.contains("write rediss://host:port"), "{sentence}");
        assert!(!sentence.contains("wrong-one"), "the password shows: {sentence}");
    }
}

// TLS where there is none, and none where there is: said as what it may be.
test_with!(the_wrong_scheme_is_a_hint, authority_and_server(), async |(authority, server)| {
    let error = LockClient::connect(&server.url().replace("rediss", "redis")).await.unwrap_err();
    let (_, sentence) = kind_and_sentence(error);
    assert!(sentence.contains("rediss://"), "{sentence}");

    let server = RedisServer::start().await;
    let url = server.url().replace("redis", "rediss");
    let (_, sentence) = refused(&url, authority.trusted()).await;
    assert!(sentence.contains("redis://"), "{sentence}");
});
