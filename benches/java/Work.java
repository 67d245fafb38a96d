import java.util.Arrays;

/** Counts what it does in the seconds of its argument, after two in which it is compiled: strings made and sorted below twenty calls. */
public class Work {
    static int step(int depth) {
        if (depth > 0)
            return step(depth - 1) + 1;
        String[] words = new String[60];
        for (int i = 0; i < words.length; i++)
            words[i] = Integer.toString((i * 7919) % 97);
        Arrays.sort(words);
        return words[3].length();
    }

    static long count(double seconds) {
        long end = System.nanoTime() + (long) (seconds * 1e9), done = 0;
        for (; System.nanoTime() < end; done++)
            step(20);
        return done;
    }

    public static void main(String[] arguments) {
        count(2);
        System.out.println(count(Double.parseDouble(arguments[0])));
    }
}
