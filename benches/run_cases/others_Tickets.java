import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;

/** Tickets: four counters sell tickets of a festival, each with a code that is drawn for it. Tickets [repaired] */
class others_Tickets {
    static boolean repaired;
    static final SecureRandom SHARED = new SecureRandom();
    static final char[] DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ".toCharArray();

    record Ticket(int guest, int stage, int cents, String code) {}

    /** A counter, with what it sold. */
    static class Counter extends Thread {
        final int number;
        final SplittableRandom own;
        final Map<Integer, Integer> byStage = new HashMap<>();
        long cents;
        int printed;
        int sold;

        Counter(int number) {
            this.number = number;
            this.own = new SplittableRandom(SHARED.nextLong());
        }

        @Override
        public void run() {
            for (int group = number; group < 700_000; group += 4) {
                sellTo(group);
            }
        }

        void sellTo(int group) {
            int people = 1 + group % 5;
            List<Ticket> tickets = new ArrayList<>();
            for (int k = 0; k < people; k++) {
                int stage = (group * 31 + k) % 7;
                tickets.add(new Ticket(group * 8 + k, stage, price(group, stage, people), newCode()));
            }
            for (Ticket t : tickets) {
                byStage.merge(t.stage(), 1, Integer::sum);
                cents += t.cents();
                printed += print(t);
                sold++;
            }
        }

        /** A code of twenty characters that nobody can guess. */
        String newCode() {
            byte[] bytes = new byte[20];
            if (repaired) {
                own.nextBytes(bytes);
            } else {
                SHARED.nextBytes(bytes);
            }
            StringBuilder code = new StringBuilder(24);
            for (int i = 0; i < bytes.length; i++) {
                if (i > 0 && i % 5 == 0) {
                    code.append('-');
                }
                code.append(DIGITS[bytes[i] & 31]);
            }
            return code.toString();
        }
    }

    static int price(int group, int stage, int people) {
        int base = 2500 + stage * 300;
        int day = group % 30;
        for (int d = 0; d < day; d++) {
            base += base * (d % 3) / 1000;
        }
        return people >= 4 ? base * 9 / 10 : base;
    }

    /** The dark modules of a code that is printed on a ticket. */
    static int print(Ticket t) {
        int size = 12;
        boolean[] dark = new boolean[size * size];
        int x = t.guest() * 40503 + t.stage();
        for (int i = 0; i < dark.length; i++) {
            x ^= x << 13;
            x ^= x >>> 17;
            x ^= x << 5;
            dark[i] = (x & 3) == 0;
        }
        int runs = 0;
        for (int row = 0; row < size; row++) {
            for (int column = 1; column < size; column++) {
                if (dark[row * size + column] != dark[row * size + column - 1]) {
                    runs++;
                }
            }
        }
        return runs + t.code().length();
    }

    public static void main(String[] args) throws InterruptedException {
        repaired = args.length > 0 && args[0].equals("repaired");
        List<Counter> counters = new ArrayList<>();
        for (int n = 0; n < 4; n++) {
            counters.add(new Counter(n));
        }
        for (Counter c : counters) {
            c.start();
        }
        long cents = 0;
        long printed = 0;
        int sold = 0;
        Map<Integer, Integer> byStage = new HashMap<>();
        for (Counter c : counters) {
            c.join();
            cents += c.cents;
            printed += c.printed;
            sold += c.sold;
            c.byStage.forEach((stage, n) -> byStage.merge(stage, n, Integer::sum));
        }
        System.out.println(sold + " tickets, " + cents + " cents, " + printed + " modules, " + byStage);
    }
}
