package peer;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Drives Redisson over stdin and stdout, as ../../../../../README.md says: a client with Redisson's
 * default settings, and a thread for each task, because a thread is what owns a lock of Redisson.
 */
public final class Driver {
    /** One of so many acquires of a read/write lock is a write. */
    private static final int WRITE_EVERY = 10;

    private static final String SETTINGS =
        "default settings: pools of 64 and 50 connections, 30 s watchdog, waits for notifications; a "
        + "thread for each task; JVM with at most 512 MB of heap, warmed up";

    private final RedissonClient redisson;

    private Driver(RedissonClient redisson) {
        this.redisson = redisson;
    }

    public static void main(String[] args) throws Exception {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + args[0]);
        Driver driver = new Driver(Redisson.create(config));
        String version = Redisson.class.getPackage().getImplementationVersion();
        System.out.println("peer\t" + version + ", Java " + Runtime.version().feature() + "\t" + SETTINGS);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            driver.obey(line.split(" "), lines);
        }
        // The server is gone, and no lock is held.
        Runtime.getRuntime().halt(0);
    }

    private void obey(String[] words, BufferedReader lines) throws Exception {
        long length = TimeUnit.MILLISECONDS.toNanos(Long.parseLong(words[3]));
        List<Task> tasks = new ArrayList<>();
        for (int number = 0; number < Integer.parseInt(words[2]); number++) {
            tasks.add(new Task(locks(words[1], words[5], number), length, Long.parseLong(words[4])));
        }
        System.out.println("ready");
        lines.readLine();
        tasks.forEach(Thread::start);
        for (Task task : tasks) {
            task.join();
        }
        try (var file = new Timestamps(Path.of(words[6]))) {
            for (Task task : tasks) {
                file.write(task);
            }
        }
        System.out.println("done");
    }

    /** The locks that a task acquires in turn, over and over. */
    private RLock[] locks(String row, String key, int number) throws IOException {
        switch (row) {
            case "own":
                return new RLock[] {redisson.getLock(key + ":" + number)};
            case "hot":
                return new RLock[] {redisson.getLock(key)};
            case "fair":
                return new RLock[] {redisson.getFairLock(key)};
            case "read-write":
                RReadWriteLock lock = redisson.getReadWriteLock(key);
                RLock[] locks = new RLock[WRITE_EVERY];
                for (int i = 0; i < WRITE_EVERY; i++) {
                    locks[i] = (number + i) % WRITE_EVERY == 0 ? lock.writeLock() : lock.readLock();
                }
                return locks;
            default:
                throw new IOException("there is no row " + row);
        }
    }
}
