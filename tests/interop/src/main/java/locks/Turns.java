package locks;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
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
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
        ExecutorService pool = Executors.newFixedThreadPool((int) threads);
        List<Future<Long>> counts = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            Callable<Long> task = () -> take(until);
            counts.add(pool.submit(task));
        }
        long sum = 0;
        for (Future<Long> count : counts) {
            sum += count.get();
        }
        pool.shutdown();
        return sum;
    }

    private long take(long until) throws Exception {
        long taken = 0;
        while (System.nanoTime() < until) {
            lock.lock();
            Thread.sleep(hold);
            lock.unlock();
            taken++;
        }
        return taken;
    }
}
