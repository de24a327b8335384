package locks;

import org.redisson.api.RLock;

/** Threads that take a lock, hold it for a while and release it, over and over. */
final class Turns {
    private final RLock lock;
    private final long hold;

    Turns(RLock lock, long hold) {
        this.lock = lock;
        this.hold = hold;
    }

    /** Takes turns in so many threads for so many milliseconds. Answers how many turns they had. */
    long run(long threads, long millis) throws Exception {
        return Loops.run(threads, millis, this::take);
    }

    private void take() throws Exception {
        lock.lock();
        Thread.sleep(hold);
        lock.unlock();
    }
}
