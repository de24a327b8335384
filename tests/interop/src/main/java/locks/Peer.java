package locks;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/**
 * A process with a Redisson client that does what it is told, one command a line:
 *
 * <pre>peer URL WATCHDOG_MS FAIR_WAIT_MS [NAMESPACE]</pre>
 *
 * <p>A command is {@code ID THREAD WORD...}. The thread of that name, made when it is first named,
 * obeys it after those that it was given before; the answer, {@code ID ok VALUE} or
 * {@code ID error EXCEPTION MESSAGE}, comes when it has. Redisson's owners are threads, and a command
 * that waits keeps only its own. {@link Commands} has the words;
 * {@code parked} is answered for the thread, at once.
 */
public final class Peer {
    private Peer() {
    }

    public static void main(String[] args) throws Exception {
        RedissonClient redisson = Redisson.create(config(args));
        Commands commands = new Commands(redisson);
        Map<String, ExecutorService> threads = new HashMap<>();
        say("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (words[2].equals("parked")) {
                say(words[0] + " ok " + isParked(words[1]));
                continue;
            }
            ExecutorService thread = threads.computeIfAbsent(
                words[1], name -> Executors.newSingleThreadExecutor(task -> new Thread(task, name)));
            thread.execute(() -> say(words[0] + " " + answer(commands, words)));
        }
        // Whoever started this is gone. Nothing is given back, as by a process that dies.
        Runtime.getRuntime().halt(0);
    }

    private static Config config(String[] args) throws ReflectiveOperationException {
        Config config = new Config();
        config.setCodec(StringCodec.INSTANCE);
        config.setThreads(4).setNettyThreads(4);
        config.setLockWatchdogTimeout(Long.parseLong(args[1]));
        config.setFairLockWaitTimeout(Long.parseLong(args[2]));
        var server = config.useSingleServer().setAddress(args[0]);
        server.setConnectionMinimumIdleSize(1).setConnectionPoolSize(16);
        server.setSubscriptionConnectionMinimumIdleSize(1);
        if (args.length > 3) {
            nameWithin(server, args[3] + ":");
        }
        return config;
    }

    /** Has names begin with that. Versions of Redisson have the interface in different packages. */
    private static void nameWithin(Object server, String prefix) throws ReflectiveOperationException {
        for (Method setter : server.getClass().getMethods()) {
            if (setter.getName().equals("setNameMapper")) {
                Class<?> mapper = setter.getParameterTypes()[0];
                InvocationHandler maps = (proxy, method, names) -> method.getName().equals("map")
                    ? prefix + names[0]
                    : ((String) names[0]).substring(prefix.length());
                Class<?>[] mappers = {mapper};
                setter.invoke(server, Proxy.newProxyInstance(mapper.getClassLoader(), mappers, maps));
                return;
            }
        }
        throw new NoSuchMethodException("setNameMapper");
    }

    private static String answer(Commands commands, String[] words) {
        try {
            return "ok " + commands.obey(words);
        } catch (Exception error) {
            String message = String.valueOf(error.getMessage()).replace('\n', ' ');
            return "error " + error.getClass().getSimpleName() + " " + message;
        }
    }

    /** Whether the thread waits for a message, and not for an answer. */
    private static boolean isParked(String name) {
        return Thread.getAllStackTraces().entrySet().stream()
            .filter(thread -> thread.getKey().getName().equals(name))
            .flatMap(thread -> Arrays.stream(thread.getValue()))
            .anyMatch(frame -> frame.getClassName().equals("java.util.concurrent.Semaphore"));
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
