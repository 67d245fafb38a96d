/** Three quarters of the iterations, and so of the CPU time, are in {@code three}, one quarter in {@code one}. Arguments: seconds of CPU time, and
 * how: {@code plain}, {@code recursive} or {@code threads}. */
class Shares {
    static final long ITERATIONS = 300_000;
    static volatile long sink;

    static long three(long iterations) {
        long total = 1;
        for (long i = 0; i < iterations; i++)
            total = total * 6364136223846793005L + i;
        return total;
    }

    static long one(long iterations) {
        long total = 1;
        for (long i = 0; i < iterations; i++)
            total = total * 6364136223846793005L + i;
        return total;
    }

    static long descend(int depth) {
        return depth == 0 ? three(3 * ITERATIONS) : descend(depth - 1) + 1;
    }

    static void rounds(double seconds, boolean deep) {
        var clock = java.lang.management.ManagementFactory.getThreadMXBean();
        double end = clock.getCurrentThreadCpuTime() + seconds * 1e9;
        while (clock.getCurrentThreadCpuTime() < end)
            sink += (deep ? descend(20) : three(3 * ITERATIONS)) + one(ITERATIONS);
    }

    public static void main(String[] words) throws InterruptedException {
        double seconds = Double.parseDouble(words[0]);
        if (!words[1].equals("threads")) {
            rounds(seconds, words[1].equals("recursive"));
            return;
        }
        var threads = new Thread[4];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(() -> rounds(seconds / 4, false));
            threads[i].start();
        }
        for (var thread : threads)
            thread.join();
    }
}
