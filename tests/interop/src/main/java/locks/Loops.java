package locks;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** Threads that do something over and over. */
final class Loops {
    /** What a thread does each time. */
    interface Round {
        void run() throws Exception;
    }

    private Loops() {}

    /** So many threads for so many milliseconds. Answers how many rounds all of them had. */
    static long run(long threads, long millis, Round round) throws Exception {
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
        ExecutorService pool = Executors.newFixedThreadPool((int) threads);
        List<Future<Long>> counts = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            Callable<Long> task = () -> repeat(until, round);
            counts.add(pool.submit(task));
        }
        long sum = 0;
        for (Future<Long> count : counts) {
            sum += count.get();
        }
        pool.shutdown();
        return sum;
    }

    private static long repeat(long until, Round round) throws Exception {
        long rounds = 0;
        while (System.nanoTime() < until) {
            round.run();
            rounds++;
        }
        return rounds;
    }
}
