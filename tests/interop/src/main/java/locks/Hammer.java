package locks;

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
        return Loops.run(numbers[0], numbers[1], this::hammer);
    }

    private void hammer() throws Exception {
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
