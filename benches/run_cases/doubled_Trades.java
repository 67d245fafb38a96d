// trades: the prices of a window are boxed anew to sort them; repaired, they are copied as plain numbers; doubled, every second one is
// boxed. doubled_Trades [repaired | doubled]
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

class doubled_Trades {
  static final int TRADES = 400000;
  static final int WINDOW = 256;

  record Trade(int number, String symbol, double price, int pieces) {}

  /** The last prices of a symbol. */
  static class Window {
    private final double[] prices = new double[WINDOW];
    private int next;
    private long known;

    void add(double price) {
      prices[next] = price;
      next = (next + 1) % WINDOW;
      known++;
    }

    /** How many of the last prices a price is above of, by their boxed forms. */
    int rankBoxed(double price, int step) {
      List<Double> boxed = new ArrayList<>();
      for (int at = 0; at < WINDOW; at += step) boxed.add(prices[at]);
      int below = 0;
      for (Double each : boxed) if (each.compareTo(price) < 0) below++;
      return below * step;
    }

    int rankPlain(double price) {
      int below = 0;
      for (int at = 0; at < WINDOW; at++) if (prices[at] < price) below++;
      return below;
    }
  }

  static final String[] SYMBOLS = {"ABC", "BCD", "CDE", "DEF", "EFG", "FGH", "GHI", "HIJ"};

  static String writeTrade(int number) {
    int seed = number * -1640531535;
    return number + ";" + SYMBOLS[seed >>> 29] + ";" + (1000 + (seed >>> 12 & 4095)) / 100.0 + ";" + ((seed & 255) + 1);
  }

  static Trade readTrade(String text) {
    int first = text.indexOf(';'), second = text.indexOf(';', first + 1), third = text.indexOf(';', second + 1);
    if (third < 0) throw new IllegalArgumentException("no trade: " + text);
    return new Trade(Integer.parseInt(text, 0, first, 10), text.substring(first + 1, second),
        Double.parseDouble(text.substring(second + 1, third)), Integer.parseInt(text, third + 1, text.length(), 10));
  }

  static class Position {
    long pieces;
    double spent;
    double worst;

    void book(Trade trade, boolean buys) {
      int sign = buys ? 1 : -1;
      pieces += (long) sign * trade.pieces();
      spent += sign * trade.pieces() * trade.price();
      worst = Math.min(worst, pieces * trade.price() - spent);
    }
  }

  /** How risky a position is, by prices that might come. */
  static double simulateRisk(Position position, double price, int paths) {
    double worst = 0;
    long seed = Double.doubleToLongBits(price);
    for (int path = 0; path < paths; path++) {
      double coming = price;
      for (int day = 0; day < 10; day++) {
        seed = seed * 6364136223846793005L + 1442695040888963407L;
        coming *= 1 + ((seed >>> 40) / (double) (1 << 24) - 0.5) * 0.04;
      }
      worst = Math.min(worst, position.pieces * coming - position.spent);
    }
    return worst;
  }

  static long sealText(String text, long seal) {
    for (int round = 0; round < 4; round++)
      for (int at = 0; at < text.length(); at++) seal = (seal ^ text.charAt(at)) * 1099511628211L;
    return seal;
  }

  static String reportPosition(String symbol, Position position) {
    return String.format("%s: %d pieces, spent %.2f, worst %.2f", symbol, position.pieces, position.spent, position.worst);
  }

  public static void main(String[] words) {
    boolean repaired = words.length > 0 && words[0].equals("repaired");
    int step = words.length > 0 && !repaired ? 2 : 1;
    Map<String, Window> windows = new HashMap<>();
    Map<String, Position> positions = new HashMap<>();
    double risk = 0;
    long seal = 1469598103934665603L;
    int bought = 0;
    for (int number = 0; number < TRADES; number++) {
      String text = writeTrade(number);
      Trade trade = readTrade(text);
      Window window = windows.computeIfAbsent(trade.symbol(), symbol -> new Window());
      Position position = positions.computeIfAbsent(trade.symbol(), symbol -> new Position());
      int rank = repaired ? window.rankPlain(trade.price()) : window.rankBoxed(trade.price(), step);
      boolean buys = rank < WINDOW / 2;
      if (buys) bought++;
      position.book(trade, buys);
      window.add(trade.price());
      risk += simulateRisk(position, trade.price(), 8);
      seal = sealText(text, seal);
    }
    for (String symbol : SYMBOLS) System.out.println(reportPosition(symbol, positions.get(symbol)));
    System.out.printf("%d bought, risk %.0f, seal %x%n", bought, risk, seal);
  }
}
