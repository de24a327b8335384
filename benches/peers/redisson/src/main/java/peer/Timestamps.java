package peer;

import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;

/** The file of a turn: for each task the number of pairs, of failures, and four times a pair. */
final class Timestamps implements AutoCloseable {
    private final OutputStream out;

    Timestamps(Path path) throws IOException {
        out = new BufferedOutputStream(Files.newOutputStream(path), 1 << 16);
    }

    void write(Task task) throws IOException {
        long[] stamps = task.stamps();
        ByteBuffer bytes = ByteBuffer.allocate(Long.BYTES * (2 + stamps.length)).order(ByteOrder.LITTLE_ENDIAN);
        bytes.putLong(stamps.length / 4).putLong(task.failures());
        bytes.asLongBuffer().put(stamps);
        out.write(bytes.array());
    }

    @Override
    public void close() throws IOException {
        out.close();
    }
}
