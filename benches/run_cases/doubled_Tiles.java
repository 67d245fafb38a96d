// tiles: a cache of tiles looks through all of them for the oldest one while it is locked; repaired, they are kept in order; doubled, it
// drops two at once. doubled_Tiles [repaired | doubled]
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;

class doubled_Tiles {
  static final int ROOM = 1500, TILES = 4500, REQUESTS = 36000, SIDE = 24;

  static class Tile {
    final int number;
    final byte[] pixels;
    long used;

    Tile(int number, byte[] pixels) {
      this.number = number;
      this.pixels = pixels;
    }
  }

  /** Tiles of a map that were drawn before. */
  static class Cache {
    private final Map<Integer, Tile> tiles;
    private final boolean ordered;
    private final int dropped;
    private long clock, misses;

    Cache(boolean ordered, int dropped) {
      this.ordered = ordered;
      this.dropped = dropped;
      tiles = ordered ? new LinkedHashMap<>(ROOM * 2, 0.75f, true) : new HashMap<>(ROOM * 2);
    }

    synchronized Tile find(int number) {
      Tile tile = tiles.get(number);
      if (tile == null) {
        misses++;
        return null;
      }
      tile.used = ++clock;
      return tile;
    }

    synchronized void store(Tile tile) {
      if (tiles.size() >= ROOM) {
        if (ordered) tiles.remove(tiles.keySet().iterator().next());
        else evictOldest();
      }
      tile.used = ++clock;
      tiles.put(tile.number, tile);
    }

    private void evictOldest() {
      Tile oldest = null, second = null;
      for (Tile tile : tiles.values()) {
        if (oldest == null || tile.used < oldest.used) {
          second = oldest;
          oldest = tile;
        } else if (second == null || tile.used < second.used) {
          second = tile;
        }
      }
      tiles.remove(oldest.number);
      if (dropped > 1) tiles.remove(second.number);
    }

    synchronized long misses() {
      return misses;
    }
  }

  /** A tile's heights, as hills. */
  static double[] readHeights(int number) {
    double[] heights = new double[SIDE * SIDE];
    for (int at = 0; at < heights.length; at++) {
      double x = at % SIDE / (double) SIDE - 0.5, y = at / SIDE / (double) SIDE - 0.5;
      heights[at] = (number % 17) * (x * x - y) / (1 + x * y + y * y) + (number % 5);
    }
    return heights;
  }

  static byte[] shadeHeights(double[] heights) {
    byte[] pixels = new byte[heights.length];
    for (int at = SIDE + 1; at < heights.length; at++) {
      double slope = heights[at] - heights[at - 1], fall = heights[at] - heights[at - SIDE];
      double light = (1 + slope) / Math.sqrt(1 + slope * slope + fall * fall);
      pixels[at] = (byte) Math.max(0, Math.min(127, light * 90));
    }
    return pixels;
  }

  static Tile drawTile(int number) {
    return new Tile(number, shadeHeights(readHeights(number)));
  }

  /** A tile's length in bytes if equal pixels are counted. */
  static int packTile(Tile tile) {
    int length = 0;
    for (int at = 0; at < tile.pixels.length; ) {
      int end = at + 1;
      while (end < tile.pixels.length && tile.pixels[end] == tile.pixels[at]) end++;
      at = end;
      length += 2;
    }
    return length;
  }

  static long seal(Tile tile) {
    long seal = tile.number;
    for (int round = 0; round < 3; round++) for (byte pixel : tile.pixels) seal = (seal ^ pixel) * 1099511628211L;
    return seal;
  }

  /** Answers requests of clients that look at any part of the map. */
  static class Server extends Thread {
    private final Cache cache;
    private final int first;
    long bytes, seals;

    Server(Cache cache, int first) {
      this.cache = cache;
      this.first = first;
    }

    @Override
    public void run() {
      long seed = first * 7919L + 1;
      for (int request = 0; request < REQUESTS; request++) {
        seed = seed * 6364136223846793005L + 1442695040888963407L;
        int number = (int) ((seed >>> 33) % TILES);
        Tile tile = cache.find(number);
        if (tile == null) {
          tile = drawTile(number);
          cache.store(tile);
        }
        bytes += packTile(tile);
        seals ^= seal(tile);
      }
    }
  }

  public static void main(String[] words) throws InterruptedException {
    boolean repaired = words.length > 0 && words[0].equals("repaired");
    Cache cache = new Cache(repaired, words.length > 0 && !repaired ? 2 : 1);
    Server[] servers = {new Server(cache, 1), new Server(cache, 2)};
    for (Server server : servers) server.start();
    for (Server server : servers) server.join();
    System.out.println(cache.misses() + " misses, " + (servers[0].bytes + servers[1].bytes) + " bytes, seals " + (servers[0].seals ^ servers[1].seals));
  }
}
