package peer;

import java.util.Arrays;
import org.redisson.api.RLock;

/** A thread that acquires and releases locks in turn until its time is over, and notes when. */
final class Task extends Thread {
    private final RLock[] locks;
    private final long length;
    private final long holdMillis;
    private long[] stamps = new long[1 << 14];
    private int used;
    private long failures;

    Task(RLock[] locks, long nanos, long holdMillis) {
        this.locks = locks;
        this.length = nanos;
        this.holdMillis = holdMillis;
        setUncaughtExceptionHandler((thread, error) -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
    }

    @Override
    public void run() {
        long end = System.nanoTime() + length;
        int next = 0;
        while (System.nanoTime() < end) {
            long asked = System.nanoTime();
            RLock lock = locks[next];
            try {
                lock.lock();
            } catch (RuntimeException error) {
                failures++;
                continue;
            }
            long held = System.nanoTime();
            next = (next + 1) % locks.length;
            hold();
            long releasing = System.nanoTime();
            try {
                lock.unlock();
            } catch (RuntimeException error) {
                failures++;
            }
            note(asked, held, releasing, System.nanoTime());
        }
    }

    private void hold() {
        if (holdMillis > 0) {
            try {
                Thread.sleep(holdMillis);
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    private void note(long... pair) {
        if (used + pair.length > stamps.length) {
            stamps = Arrays.copyOf(stamps, 2 * stamps.length);
        }
        System.arraycopy(pair, 0, stamps, used, pair.length);
        used += pair.length;
    }

    /** When it asked for a lock, had it, began to release it and had released it: four for each pair. */
    long[] stamps() {
        return Arrays.copyOf(stamps, used);
    }

    long failures() {
        return failures;
    }
}
