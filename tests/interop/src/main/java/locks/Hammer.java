package locks;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** Threads that count up a number under a lock, in steps that only the lock makes one. */
final class Hammer {
    private final RedissonClient redisson;
    private final String kind;
    private final String name;

    Hammer(RedissonClient redisson, String kind, String name) {
        this.redisson = redisson;
        this.kind = kind;
        this.name = name;
    }

    /** So many threads for so many milliseconds. Answers how often all of them counted. */
    long run(long[] numbers) throws Exception {
        int threads = (int) numbers[0];
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(numbers[1]);
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        List<Future<Long>> counts = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            Callable<Long> task = () -> hammer(until);
            counts.add(pool.submit(task));
        }
        long sum = 0;
        for (Future<Long> count : counts) {
            sum += count.get();
        }
        pool.shutdown();
        return sum;
    }

    private long hammer(long until) throws Exception {
        long counted = 0;
        while (System.nanoTime() < until) {
            if (kind.equals("permits")) {
                var permits = redisson.getPermitExpirableSemaphore(name);
                String permit = permits.acquire(30, TimeUnit.SECONDS);
                count();
                permits.release(permit);
            } else {
                var lock = Commands.lockOf(redisson, kind, name);
                lock.lock();
                count();
                lock.unlock();
            }
            counted++;
        }
        return counted;
    }

    private void count() {
        var inside = redisson.getAtomicLong("hammer:inside");
        var sum = redisson.getBucket("hammer:sum", StringCodec.INSTANCE);
        if (inside.incrementAndGet() != 1) {
            redisson.getAtomicLong("hammer:overlaps").incrementAndGet();
        }
        long seen = Long.parseLong((String) sum.get());
        sum.set(Long.toString(seen + 1));
        inside.decrementAndGet();
    }
}
