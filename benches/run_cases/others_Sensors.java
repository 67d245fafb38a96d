import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedList;
import java.util.List;

/** Sensors: readings of a station's sensors are smoothed, gaps are filled, and alarms are found. Sensors [repaired] */
class others_Sensors {
    static boolean repaired;

    record Reading(int minute, double value, boolean missing) {}

    static class Series {
        final String name;
        final List<Reading> readings = repaired ? new ArrayList<>() : new LinkedList<>();

        Series(String name) {
            this.name = name;
        }

        void record(int minute, double value, boolean missing) {
            readings.add(new Reading(minute, value, missing));
        }

        /** The median of the readings around each one. */
        double[] smooth(int width) {
            double[] out = new double[readings.size()];
            double[] window = new double[2 * width + 1];
            for (int i = 0; i < out.length; i++) {
                int n = 0;
                for (int k = Math.max(0, i - width); k <= Math.min(out.length - 1, i + width); k++) {
                    Reading r = readings.get(k);
                    if (!r.missing()) {
                        window[n++] = r.value();
                    }
                }
                Arrays.sort(window, 0, n);
                out[i] = n == 0 ? 0 : window[n / 2];
            }
            return out;
        }
    }

    static Series measure(int sensor, int minutes) {
        Series s = new Series("sensor " + sensor);
        long x = sensor * 7919L + 17;
        double level = 20;
        for (int m = 0; m < minutes; m++) {
            x = x * 6364136223846793005L + 1442695040888963407L;
            double noise = (x >>> 40) / (double) (1 << 24) - 0.5;
            level += noise * 0.3 + 0.01 * Math.sin(m / 229.0) + (20 - level) * 0.002;
            s.record(m, level + ((x >>> 20 & 255) == 0 ? 15 : 0), (x >>> 28 & 63) == 0);
        }
        return s;
    }

    /** How much of a day's rhythm is in a series, for periods from a quarter of a day to two of them. */
    static double strongestPeriod(double[] values) {
        double best = 0;
        double period = 0;
        for (int p = 360; p <= 2880; p += 15) {
            double re = 0;
            double im = 0;
            for (int i = 0; i < values.length; i++) {
                double angle = 2 * Math.PI * i / p;
                re += (values[i] - 20) * Math.cos(angle);
                im += (values[i] - 20) * Math.sin(angle);
            }
            double power = re * re + im * im;
            if (power > best) {
                best = power;
                period = p;
            }
        }
        return period;
    }

    static int alarms(double[] values, double limit) {
        int count = 0;
        boolean on = false;
        for (double v : values) {
            if (!on && v > limit) {
                on = true;
                count++;
            } else if (on && v < limit - 0.5) {
                on = false;
            }
        }
        return count;
    }

    static double quantile(double[] values, double q) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        return sorted[(int) (q * (sorted.length - 1))];
    }

    public static void main(String[] args) {
        repaired = args.length > 0 && args[0].equals("repaired");
        int alarms = 0;
        double periods = 0;
        double spread = 0;
        for (int sensor = 0; sensor < 16; sensor++) {
            Series s = measure(sensor, 7000);
            double[] smooth = s.smooth(4);
            double high = quantile(smooth, 0.9);
            spread += high - quantile(smooth, 0.1);
            alarms += alarms(smooth, high);
            periods += strongestPeriod(smooth);
        }
        System.out.printf("%d alarms, spread %.3f, periods %.0f%n", alarms, spread, periods);
    }
}
