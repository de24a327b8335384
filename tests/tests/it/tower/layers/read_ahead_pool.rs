//! What the waiting requests of a layer read together.

use axum::extract::Path;
use tokio::sync::Semaphore;

use crate::tower::prelude::*;

const FRAME: usize = 100_000;
const FRAMES: usize = 300;
const MIB: usize = 1 << 20;

/// How much all requests of a layer keep.
const POOL: usize = 16 * MIB;

/// Longer than it takes to read the pool empty.
const A_WHILE: Duration = secs(3);

/// An upload, and how much of it was read.
#[derive(Default, Clone)]
struct Upload(Arc<AtomicUsize>);

impl Upload {
    fn read(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    fn send(&self, app: &Router, order: u32) -> JoinHandle<StatusCode> {
        let read = Arc::clone(&self.0);
        let frames = stream::repeat_with(move || {
            read.fetch_add(FRAME, Ordering::SeqCst);
            Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; FRAME]))
        });
        let body = Body::from_stream(frames.take(FRAMES));
        let request = Request::post(format!("/orders/{order}/pay")).body(body).unwrap();
        let answer = app.clone().oneshot(request);
        lock_tests::spawn(async { answer.await.unwrap().status() })
    }
}

/// The handler of the first order, which goes on when the test says so.
struct Slow {
    upload: Upload,
    steps: Semaphore,
}

async fn pay(Path(order): Path<u32>, State(slow): State<Arc<Slow>>, body: Body) {
    let mut frames = body.into_data_stream();
    if order == 1 {
        let kept = slow.upload.read() / FRAME;
        slow.steps.acquire().await.unwrap().forget();
        for _ in 0..kept {
            frames.next().await.unwrap().unwrap();
        }
        slow.steps.acquire().await.unwrap().forget();
    }
    while let Some(frame) = frames.next().await {
        frame.unwrap();
    }
}

/// Orders 1 and 2 are busy, and each request may read that many bytes.
async fn world(read_ahead: usize) -> (Router, Arc<Slow>, [LockGuard; 2]) {
    let (locks, peer, _) = two_clients();
    let layer = order_layer(&locks).wait(Wait::Forever).read_ahead(read_ahead).build().unwrap();
    let slow = Arc::new(Slow { upload: Upload::default(), steps: Semaphore::new(0) });
    let app = Router::new().route("/orders/{id}/pay", post(pay)).route_layer(layer);
    let busy =
        [peer.mutex("order:1").lock().await.unwrap(), peer.mutex("order:2").lock().await.unwrap()];
    (app.with_state(Arc::clone(&slow)), slow, busy)
}

/// However many wait, and however large their frames are.
#[tokio::test(start_paused = true)]
async fn all_waiting_requests_keep_sixteen_mebibytes() {
    let (app, _, [_first, second]) = world(MIB).await;
    let uploads: Vec<_> = (0..40).map(|_| Upload::default()).collect();
    let answers: Vec<_> = uploads.iter().map(|upload| upload.send(&app, 2)).collect();
    sleep(A_WHILE).await;
    let read: usize = uploads.iter().map(Upload::read).sum();
    // A share has one frame more than its bytes at most, and the frame counts.
    assert!((POOL - 2 * MIB..POOL + FRAME).contains(&read), "{read}");
    let unread = uploads.iter().filter(|upload| upload.read() == 0).count();
    assert!(unread >= 24, "{unread}");

    // The others wait unread, and get their whole bodies.
    second.release().await.unwrap();
    for answer in answers {
        assert_eq!(timeout(PROMPTLY, answer).await.expect("a hang").unwrap(), StatusCode::OK);
    }
    assert!(uploads.iter().all(|upload| upload.read() == FRAMES * FRAME));
}

/// A handler that has its lock may leave its body unread for long, and its memory is not free before.
#[tokio::test(start_paused = true)]
async fn what_a_handler_has_not_read_yet_counts() {
    let (app, slow, [first_is_busy, second_is_busy]) = world(POOL).await;
    let first = slow.upload.send(&app, 1);
    sleep(A_WHILE).await;
    let kept = slow.upload.read();
    assert!((POOL..POOL + 2 * FRAME).contains(&kept), "{kept}");
    first_is_busy.release().await.unwrap();
    let upload = Upload::default();
    let second = upload.send(&app, 2);
    sleep(A_WHILE).await;
    assert_eq!(slow.upload.read(), kept, "the handler reads nothing yet");
    assert_eq!(upload.read(), 0, "nothing of an empty pool");

    // What was kept is read, and the rest is the handler's own business.
    slow.steps.add_permits(1);
    sleep(A_WHILE).await;
    assert_eq!(slow.upload.read(), kept);
    assert!((POOL..POOL + 2 * FRAME).contains(&upload.read()), "{}", upload.read());
    slow.steps.add_permits(1);
    second_is_busy.release().await.unwrap();
    for answer in [first, second] {
        assert_eq!(timeout(PROMPTLY, answer).await.expect("a hang").unwrap(), StatusCode::OK);
    }
    assert_eq!((slow.upload.read(), upload.read()), (FRAMES * FRAME, FRAMES * FRAME));
}
