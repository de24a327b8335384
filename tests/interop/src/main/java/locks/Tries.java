package locks;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.concurrent.atomic.AtomicLong;
import org.redisson.api.RLock;

/** Threads that wait for a lock for a short time, over and over, and hold it for a moment if they get it. */
final class Tries {
    private final RLock lock;
    private final long wait;
    private final long hold;
    private final AtomicLong granted = new AtomicLong();

    Tries(RLock lock, long wait, long hold) {
        this.lock = lock;
        this.wait = wait;
        this.hold = hold;
    }

    /** Tries in so many threads for so many milliseconds. Answers how often they got the lock, and how often they tried. */
    String run(long threads, long millis) throws Exception {
        long all = Loops.run(threads, millis, this::attempt);
        return granted.get() + " " + all;
    }

    private void attempt() throws Exception {
        if (lock.tryLock(wait, -1, MILLISECONDS)) {
            granted.incrementAndGet();
            Thread.sleep(hold);
            lock.unlock();
        }
    }
}
