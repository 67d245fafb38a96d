import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Sorts strings and counts them in a map, for five seconds: comparisons of strings are an intrinsic of the compiler. */
public class Strings {
    static long round(int size) {
        List<String> words = new ArrayList<>();
        for (int i = 0; i < size; i++)
            words.add(Integer.toString((i * 7919) % 10007));
        Collections.sort(words);
        Map<String, Integer> counts = new HashMap<>();
        for (String word : words)
            counts.merge(word, 1, Integer::sum);
        return counts.size();
    }

    public static void main(String[] arguments) {
        long end = System.currentTimeMillis() + 5000, total = 0;
        while (System.currentTimeMillis() < end)
            total += round(20000);
        System.out.println(total);
    }
}
