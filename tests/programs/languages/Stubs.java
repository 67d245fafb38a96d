import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.zip.CRC32;

/** Methods whose time is spent in code stubs of the JVM. At its end it prints the share of CPU time of each. */
public class Stubs {
    static final String[] NAMES = {"sines", "powers", "digests", "copies", "sums"};
    static final byte[] DATA = new byte[20_000];
    static double sink;

    static double sines(int count) {
        double sum = 0;
        for (int i = 1; i < count; i++) sum += Math.sin(i) / i + Math.tan(i);
        return sum;
    }

    static double powers(int count) {
        double sum = 0;
        for (int i = 1; i < count; i++) sum += Math.pow(i, 0.3) + Math.log(i);
        return sum;
    }

    static double digests(int count) throws Exception {
        double sum = 0;
        for (int i = 0; i < count; i++) {
            sum += MessageDigest.getInstance("SHA-256").digest(DATA)[0];
            sum += MessageDigest.getInstance("SHA-512").digest(DATA)[0];
        }
        return sum;
    }

    static double copies(int count) {
        Object[] from = new Object[10_000];
        double sum = 0;
        for (int i = 0; i < count; i++) sum += Arrays.copyOf(from, from.length, String[].class).length;
        return sum;
    }

    static double sums(int count) {
        CRC32 sum = new CRC32();
        for (int i = 0; i < count; i++) sum.update(DATA);
        return sum.getValue();
    }

    public static void main(String[] arguments) throws Exception {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        long end = threads.getCurrentThreadCpuTime() + (long) (Double.parseDouble(arguments[0]) * 1e9);
        long[] used = new long[NAMES.length];
        long before = threads.getCurrentThreadCpuTime();
        for (int which = 0; before < end; which = (which + 1) % NAMES.length) {
            switch (which) {
                case 0: sink += sines(10_000); break;
                case 1: sink += powers(8_000); break;
                case 2: sink += digests(8); break;
                case 3: sink += copies(60); break;
                default: sink += sums(800);
            }
            long now = threads.getCurrentThreadCpuTime();
            used[which] += now - before;
            before = now;
        }
        long all = Arrays.stream(used).sum();
        for (int i = 0; i < NAMES.length; i++) System.out.println(NAMES[i] + " " + (double) used[i] / all);
    }
}
