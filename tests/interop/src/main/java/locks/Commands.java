package locks;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.Arrays;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;

/** The commands that a {@link Peer} knows. Times are in milliseconds; a lease of -1 is the watchdog's. */
final class Commands {
    private final RedissonClient redisson;

    Commands(RedissonClient redisson) {
        this.redisson = redisson;
    }

    /** {@code words} from the third on are the command; those before are the peer's. */
    Object obey(String[] words) throws Exception {
        String kind = words[3];
        String name = words[4];
        switch (kind) {
            case "permit":
                return permit(words[2], redisson.getPermitExpirableSemaphore(name), numbers(words, 5), words);
            case "latch":
                return latch(words[2], name, numbers(words, 5));
            case "plain-semaphore":
                return plainSemaphore(words[2], name, numbers(words, 5));
            default:
                break;
        }
        switch (words[2]) {
            case "token":
                return redisson.getFencedLock(name).lockAndGetToken();
            case "hammer":
                return new Hammer(redisson, kind, name).run(numbers(words, 5));
            case "turns":
                long[] numbers = numbers(words, 5);
                return new Turns(lockOf(redisson, kind, name), numbers[0]).run(numbers[1], numbers[2]);
            case "tries":
                long[] times = numbers(words, 5);
                return new Tries(lockOf(redisson, kind, name), times[0], times[1]).run(times[2], times[3]);
            default:
                return lock(words[2], lockOf(redisson, kind, name), numbers(words, 5));
        }
    }

    /** A lock by its kind; of several names with commas between for {@code multi}. */
    static RLock lockOf(RedissonClient redisson, String kind, String name) {
        switch (kind) {
            case "mutex":
                return redisson.getLock(name);
            case "fenced":
                return redisson.getFencedLock(name);
            case "fair":
                return redisson.getFairLock(name);
            case "read":
                return redisson.getReadWriteLock(name).readLock();
            case "write":
                return redisson.getReadWriteLock(name).writeLock();
            case "multi":
                return redisson.getMultiLock(
                    Arrays.stream(name.split(",")).map(redisson::getLock).toArray(RLock[]::new));
            default:
                throw new IllegalArgumentException("there is no kind " + kind);
        }
    }

    private static Object lock(String word, RLock lock, long[] numbers) throws Exception {
        switch (word) {
            case "lock":
                if (numbers.length > 0) {
                    lock.lock(numbers[0], MILLISECONDS);
                } else {
                    lock.lock();
                }
                return "locked";
            case "try":
                // Without numbers it is another script: that one does not line up anywhere.
                return numbers.length == 0
                    ? lock.tryLock()
                    : lock.tryLock(numbers[0], numbers[1], MILLISECONDS);
            case "unlock":
                lock.unlock();
                return "unlocked";
            case "force":
                return lock.forceUnlock();
            case "locked":
                return lock.isLocked();
            case "mine":
                return lock.isHeldByCurrentThread();
            case "holds":
                return lock.getHoldCount();
            case "left":
                return lock.remainTimeToLive();
            default:
                throw new IllegalArgumentException("there is no command " + word);
        }
    }

    private static Object permit(
        String word, RPermitExpirableSemaphore permits, long[] numbers, String[] words) throws Exception {
        switch (word) {
            case "set":
                return permits.trySetPermits((int) numbers[0]);
            case "acquire":
                return numbers[0] < 0 ? permits.acquire() : permits.acquire(numbers[0], MILLISECONDS);
            case "try":
                return permits.tryAcquire(numbers[0], numbers[1], MILLISECONDS);
            case "release":
                return permits.tryRelease(words[5]);
            case "available":
                return permits.availablePermits();
            default:
                throw new IllegalArgumentException("there is no command " + word);
        }
    }

    private Object latch(String word, String name, long[] numbers) throws Exception {
        var latch = redisson.getCountDownLatch(name);
        switch (word) {
            case "set":
                return latch.trySetCount(numbers[0]);
            case "down":
                latch.countDown();
                return "counted";
            case "count":
                return latch.getCount();
            case "await":
                return latch.await(numbers[0], MILLISECONDS);
            case "delete":
                return latch.delete();
            default:
                throw new IllegalArgumentException("there is no command " + word);
        }
    }

    private Object plainSemaphore(String word, String name, long[] numbers) {
        var semaphore = redisson.getSemaphore(name);
        switch (word) {
            case "set":
                return semaphore.trySetPermits((int) numbers[0]);
            case "try":
                return semaphore.tryAcquire();
            case "available":
                return semaphore.availablePermits();
            default:
                throw new IllegalArgumentException("there is no command " + word);
        }
    }

    /** The words from that one on, as far as they are numbers. */
    private static long[] numbers(String[] words, int from) {
        return Arrays.stream(words, Math.min(from, words.length), words.length)
            .filter(word -> word.matches("-?\\d{1,18}"))
            .mapToLong(Long::parseLong)
            .toArray();
    }
}
