// stock: an article that is known is looked for in a list; repaired, in a set. latest_Stock [repaired]
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;

class latest_Stock {
  private final Collection<String> articles;

  latest_Stock(Collection<String> articles) {
    this.articles = articles;
  }

  boolean addArticle(String name) {
    return !articles.contains(name) && articles.add(name);
  }

  static long weigh(long number) {
    long sum = number;
    for (int i = 0; i < 20000; i++) sum = 0x7edcba9876543210L / (sum | 1) + i;
    return sum;
  }

  public static void main(String[] words) {
    latest_Stock stock = new latest_Stock(words.length > 0 ? new HashSet<>() : new ArrayList<>());
    long sum = 0;
    for (int number = 0; number < 15000; number++) {
      stock.addArticle("article number " + number);
      if (number % 5 == 0) sum += weigh(number);
    }
    System.out.println(stock.articles.size() + " " + sum);
  }
}
