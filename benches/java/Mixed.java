import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.zip.CRC32;

/** Regular expressions, streams, exceptions, digests, large numbers, formats, locks, calls through interfaces and arrays, for some seconds. */
public class Mixed {
    static final Pattern WORD = Pattern.compile("([a-z]+)(\\d+)?(?:-x)?");

    static long words(int count) {
        var text = new StringBuilder();
        for (int i = 0; i < count; i++)
            text.append("word").append(i % 97).append(i % 5 == 0 ? "-x " : " ");
        var matcher = WORD.matcher(text);
        long total = 0;
        while (matcher.find())
            total += matcher.group(1).length() + (matcher.group(2) == null ? 0 : Integer.parseInt(matcher.group(2)));
        return total;
    }

    static long streams(int count) {
        return IntStream.range(0, count).boxed()
            .collect(Collectors.groupingBy(i -> "k" + i % 31, TreeMap::new, Collectors.summingInt(i -> i)))
            .values().stream().mapToLong(i -> i).sum();
    }

    static int descend(int depth) {
        if (depth == 0)
            throw new IllegalStateException("bottom");
        try {
            return descend(depth - 1) + 1;
        } finally {
            if (depth % 50 == 0)
                System.nanoTime();
        }
    }

    static long exceptions(int count) {
        long total = 0;
        for (int i = 0; i < count; i++)
            try {
                descend(20);
            } catch (IllegalStateException error) {
                total += error.getStackTrace().length;
            }
        return total;
    }

    static long digest(int count) throws Exception {
        var digest = MessageDigest.getInstance("SHA-256");
        byte[] block = new byte[4096];
        for (int i = 0; i < count; i++)
            digest.update(block);
        var sum = new CRC32();
        sum.update(block);
        return digest.digest()[0] + sum.getValue();
    }

    static long large(int count) {
        var product = BigInteger.ONE;
        for (int i = 1; i < count; i++)
            product = product.multiply(BigInteger.valueOf(i));
        return product.bitLength() + product.toString().length();
    }

    static long formats(int count) {
        long total = 0;
        for (int i = 0; i < count; i++)
            total += String.format("%d %s %.3f", i, "a" + i, i * .5).length();
        return total;
    }

    static long locks(int count) throws Exception {
        var lock = new Object();
        long[] total = new long[1];
        var pool = Executors.newFixedThreadPool(3);
        for (int thread = 0; thread < 3; thread++)
            pool.submit(() -> {
                for (int i = 0; i < count; i++)
                    synchronized (lock) {
                        total[0] += Math.floorMod(i, 7) + (long) Math.sin(i);
                    }
            });
        pool.shutdown();
        pool.awaitTermination(9, TimeUnit.SECONDS);
        return total[0];
    }

    interface Shape {
        double area();
    }

    static long shapes(int count) {
        Shape[] shapes = new Shape[64];
        for (int i = 0; i < 64; i++) {
            final int k = i;
            switch (i % 5) {
                case 0: shapes[i] = () -> k * 2.0; break;
                case 1: shapes[i] = new Shape() { public double area() { return k % 3.1; } }; break;
                case 2: shapes[i] = () -> Math.pow(k, 1.3); break;
                case 3: shapes[i] = () -> Math.exp(k * .01); break;
                default: shapes[i] = () -> k;
            }
        }
        double total = 0;
        for (int i = 0; i < count; i++)
            total += shapes[i & 63].area();
        return (long) total;
    }

    static long arrays(int size) {
        int[] numbers = new int[size];
        long total = 0;
        for (int round = 0; round < 20; round++) {
            for (int i = 0; i < size; i++)
                numbers[i] = (i * 7919 + round) % size;
            int[] sorted = numbers.clone();
            Arrays.sort(sorted);
            total += Arrays.hashCode(sorted) + Arrays.binarySearch(sorted, 5);
            System.arraycopy(sorted, 0, numbers, 1, size - 1);
        }
        String text = new String(new char[size]).replace('\0', 'q') + "end";
        return total + text.indexOf("end") + text.getBytes(StandardCharsets.UTF_8).length + text.toUpperCase().length();
    }

    public static void main(String[] arguments) throws Exception {
        long end = System.currentTimeMillis() + (arguments.length > 0 ? Integer.parseInt(arguments[0]) : 5) * 1000L, total = 0;
        while (System.currentTimeMillis() < end)
            total += words(2000) + streams(5000) + exceptions(200) + digest(50) + large(300) + formats(300) + locks(3000)
                + shapes(20000) + arrays(3000);
        System.out.println(total);
    }
}
