import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.IntCountsHistogram;

/**
 * One measurement, by the rules of {@code crates/lab/src/load}: a warm-up, a measured window, a closed loop or an open one whose latencies
 * count from the moment a request was due. Says as it goes, and at its end:
 *
 * <pre>
 * begins                        the measured window begins
 * at NANOSECONDS COMPLETED      time passes; so many answers of whole seconds
 * ends                          it is over
 * ended NANOSECONDS             when, since the start; earlier than asked for if it was ended early
 * second COMPLETED HISTOGRAM    for each second of the window: answers that came in it; latencies of what was sent or due in it, in
 *                               nanoseconds, in HdrHistogram's V2 format and base64
 * errors COUNT, unsent COUNT, first_error TEXT, broken TEXT
 * </pre>
 */
final class Measurement {
    private static final long SECOND = 1_000_000_000L;
    /** Latencies beyond an hour count as an hour. */
    private static final long HIGHEST = 3600 * SECOND;
    private static final int DIGITS = 3;
    /** How often somebody looks at the time while load runs. */
    private static final long TICK = SECOND / 10;

    private final Lines lines;
    private final int threads;
    /** Requests a second over all threads; 0 for a closed loop. */
    private final double rate;
    private final long seed;
    private final long repetition;
    /** Whether what is written can be read back. */
    private final boolean stores;
    private final int seconds;
    private final long begin;
    private final long end;
    /** Until when an open loop sends what was due before the end. */
    private final long patience;

    private final Histogram[] latencies;
    private final long[] completed;
    private final AtomicLong handedOver = new AtomicLong();
    private volatile boolean stopped;
    private volatile boolean lost;
    private long origin;

    Measurement(Lines lines, Map<String, String> how) {
        this.lines = lines;
        threads = Integer.parseInt(how.get("threads"));
        rate = Double.parseDouble(how.get("rate"));
        seed = Long.parseUnsignedLong(how.get("seed"));
        repetition = Long.parseLong(how.get("repetition"));
        stores = Boolean.parseBoolean(how.get("stores"));
        seconds = Integer.parseInt(how.get("measured"));
        begin = Long.parseLong(how.get("warm_up")) * SECOND;
        end = begin + seconds * SECOND;
        patience = end + seconds * SECOND;
        latencies = new Histogram[seconds];
        completed = new long[seconds];
    }

    void stop() {
        stopped = true;
    }

    private boolean endsEarly() {
        return stopped || lost;
    }

    private long now() {
        return System.nanoTime() - origin;
    }

    void run(Product product, Plan plan) throws Exception {
        List<Worker> workers = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            workers.add(new Worker(thread, product.caller(plan, Numbers.of(seed, repetition, thread))));
        }
        CountDownLatch left = new CountDownLatch(threads);
        origin = System.nanoTime();
        for (Worker worker : workers) {
            Thread thread = new Thread(() -> {
                try {
                    worker.work();
                } finally {
                    left.countDown();
                }
            }, "load-" + worker.thread);
            thread.setDaemon(true);
            try {
                thread.start();
            } catch (Error error) {
                // Those that run already need not go on.
                lost = true;
                throw error;
            }
        }
        lines.say("ended " + watch(left));
        tell(workers);
    }

    /** Tells what happens until all threads have ended; when the window ended. */
    private long watch(CountDownLatch left) throws InterruptedException {
        boolean begun = false;
        boolean ended = false;
        boolean early = false;
        long endedAt = end;
        boolean running = true;
        while (running) {
            long boundary = (begun ? end : begin) - now();
            running = !left.await(ended ? TICK : Math.max(0, Math.min(boundary, TICK)), TimeUnit.NANOSECONDS);
            long now = now();
            if (endsEarly() && !early) {
                early = true;
                endedAt = Math.min(now, endedAt);
            }
            if (!begun && now >= begin) {
                begun = true;
                lines.say("begins");
            }
            if (!ended && (now >= end || early)) {
                ended = true;
                lines.say("ends");
            }
            lines.say("at " + now + " " + handedOver.get());
        }
        if (!ended) {
            lines.say("ends");
        }
        return endedAt;
    }

    private void tell(List<Worker> workers) {
        long errors = 0;
        long unsent = 0;
        String firstError = null;
        String broken = null;
        for (Worker worker : workers) {
            errors += worker.errors;
            unsent += worker.unsent;
            firstError = firstError == null ? worker.firstError : firstError;
            broken = broken == null ? worker.broken : broken;
        }
        for (int second = 0; second < seconds; second++) {
            Histogram histogram = latencies[second] == null ? new Histogram(1, HIGHEST, DIGITS) : latencies[second];
            ByteBuffer bytes = ByteBuffer.allocate(histogram.getNeededByteBufferCapacity());
            int length = histogram.encodeIntoByteBuffer(bytes);
            String text = Base64.getEncoder().encodeToString(Arrays.copyOf(bytes.array(), length));
            lines.say("second " + completed[second] + " " + text);
        }
        lines.say("errors " + errors);
        lines.say("unsent " + unsent);
        if (firstError != null) {
            lines.say("first_error " + firstError);
        }
        if (broken != null) {
            lines.say("broken " + broken);
        }
    }

    /** The second of the window that a moment is in; -1 if it is in none. */
    private int secondOf(long moment) {
        return moment >= begin && moment < end ? (int) ((moment - begin) / SECOND) : -1;
    }

    /** One thread of the load. */
    private final class Worker {
        private final int thread;
        private final Caller caller;
        /** Nanoseconds between the requests of this thread, and before its first: threads take turns. */
        private final double interval;
        private final double first;

        private long errors;
        private String firstError;
        private long unsent;
        private String broken;

        private final long[] own = new long[seconds];
        private int second;
        private IntCountsHistogram current = new IntCountsHistogram(1, HIGHEST, DIGITS);
        /** The latencies of an earlier second, until they are handed over, and when that is to be. */
        private int earlierSecond;
        private IntCountsHistogram earlier = new IntCountsHistogram(1, HIGHEST, DIGITS);
        private long handOverAt = Long.MAX_VALUE;

        Worker(int thread, Caller caller) {
            this.thread = thread;
            this.caller = caller;
            interval = rate > 0 ? SECOND * (double) threads / rate : 0;
            first = interval * thread / threads;
        }

        void work() {
            try {
                loop();
            } catch (Exception | Error error) {
                error.printStackTrace();
                broken = error.toString();
                lost = true;
            }
            putAside();
            handOver();
            synchronized (latencies) {
                for (int place = 0; place < seconds; place++) {
                    completed[place] += own[place];
                }
            }
        }

        private void loop() throws Exception {
            boolean closed = rate == 0;
            for (long calls = 0; ; calls++) {
                // Multiplied, not added up: a rate of a million has no whole interval.
                long due = closed ? 0 : (long) (first + interval * calls);
                if ((closed ? now() : due) >= end) {
                    // Somebody who stops the load does not wait for one more answer.
                    if (stores && !endsEarly()) {
                        wrong(caller.readBack());
                    }
                    return;
                }
                caller.make();
                if (!waited(due)) {
                    unsent = closed ? 0 : Math.max(0, dueBefore(Math.min(now(), end)) - Math.max(calls, dueBefore(begin)));
                    return;
                }
                long start = closed ? now() : due;
                caller.call();
                boolean measured = record(start, now());
                String fault = caller.judge();
                if (measured) {
                    wrong(fault);
                }
            }
        }

        /** How many calls are due before this moment. */
        private long dueBefore(long moment) {
            return (long) Math.max(0, Math.ceil((moment - first) / interval));
        }

        /** Waits until a call is due; false if it is not to be made. */
        private boolean waited(long due) {
            while (true) {
                long now = now();
                if (endsEarly() || now >= patience) {
                    return false;
                }
                if (now >= due) {
                    return true;
                }
                LockSupport.parkNanos(Math.min(due - now, TICK));
            }
        }

        private void wrong(String fault) {
            if (fault != null) {
                errors++;
                firstError = firstError == null ? fault : firstError;
            }
        }

        /** An answer to a request that was sent, or due, at {@code start}. Whether it is part of the measured window. */
        private boolean record(long start, long done) {
            int came = secondOf(done);
            if (came >= 0) {
                own[came]++;
            }
            int sent = secondOf(start);
            if (sent < 0) {
                return false;
            }
            if (sent != second) {
                putAside();
                second = sent;
                // Not all threads at the same moment: they would wait for each other.
                handOverAt = done + SECOND * thread / threads;
            }
            if (done >= handOverAt) {
                handOver();
            }
            current.recordValue(Math.max(1, Math.min(HIGHEST, done - start)));
            return true;
        }

        private void putAside() {
            handOver();
            earlierSecond = second;
            IntCountsHistogram filled = current;
            current = earlier;
            earlier = filled;
        }

        private void handOver() {
            handOverAt = Long.MAX_VALUE;
            if (earlier.getTotalCount() == 0) {
                return;
            }
            handedOver.addAndGet(earlier.getTotalCount());
            synchronized (latencies) {
                if (latencies[earlierSecond] == null) {
                    latencies[earlierSecond] = new Histogram(1, HIGHEST, DIGITS);
                }
                latencies[earlierSecond].add(earlier);
            }
            earlier.reset();
        }
    }
}
