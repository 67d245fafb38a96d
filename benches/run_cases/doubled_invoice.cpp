// invoice: each amount is formatted by a stream of its own, twice: for the width of its column, and to be printed; repaired, it is formatted
// without a stream; doubled, once. doubled_invoice [repaired | doubled]
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <iomanip>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

constexpr int INVOICES = 16000, LINES = 40;

struct Line {
  std::string article;
  int pieces;
  double price, discount;
};

struct Invoice {
  int number;
  std::string customer;
  std::vector<Line> lines;
};

enum class Form { slow, repaired, doubled };
static Form form = Form::slow;

__attribute__((noinline)) static std::string format_by_stream(double amount) {
  std::ostringstream stream;
  stream << std::fixed << std::setprecision(2) << amount << " EUR";
  return stream.str();
}

__attribute__((noinline)) static std::string format_plainly(double amount) {
  long cents = long(amount * 100 + (amount < 0 ? -0.5 : 0.5));
  char text[32], *at = text;
  if (cents < 0) *at++ = '-', cents = -cents;
  at = std::to_chars(at, text + 24, cents / 100).ptr;
  *at++ = '.';
  *at++ = char('0' + cents / 10 % 10);
  *at++ = char('0' + cents % 10);
  return std::string(text, at) + " EUR";
}

static std::string format_amount(double amount) { return form == Form::repaired ? format_plainly(amount) : format_by_stream(amount); }

__attribute__((noinline)) static Invoice read_invoice(int number) {
  static const char *const things[] = {"bolt", "nut", "washer", "bracket", "hinge", "clamp", "rivet"};
  Invoice invoice{number, "Customer " + std::to_string(number * 7919 % 5000), {}};
  uint32_t seed = uint32_t(number) * 2654435761u;
  for (int i = 0; i < LINES; i++) {
    seed = seed * 1664525 + 1013904223;
    invoice.lines.push_back({std::string(things[seed >> 8 & 3]) + " of size " + std::to_string(seed >> 20 & 63), int(seed >> 12 & 15) + 1,
                             (seed >> 6 & 8191) / 100.0, seed >> 28 ? 0 : 0.05});
  }
  return invoice;
}

__attribute__((noinline)) static void sort_lines(Invoice &invoice) {
  std::sort(invoice.lines.begin(), invoice.lines.end(), [](const Line &one, const Line &other) {
    return one.article != other.article ? one.article < other.article : one.pieces < other.pieces;
  });
}

static double amount_of(const Line &line) { return line.pieces * line.price * (1 - line.discount); }

__attribute__((noinline)) static void merge_lines(Invoice &invoice) {
  std::vector<Line> merged;
  for (Line &line : invoice.lines)
    if (!merged.empty() && merged.back().article == line.article && merged.back().price == line.price)
      merged.back().pieces += line.pieces;
    else
      merged.push_back(std::move(line));
  invoice.lines = std::move(merged);
}

__attribute__((noinline)) static std::string print_invoice(const Invoice &invoice) {
  size_t width = 0;
  std::vector<std::string> amounts;
  for (const Line &line : invoice.lines) {
    amounts.push_back(format_amount(amount_of(line)));
    width = std::max(width, amounts.back().size());
  }
  std::string page = "Invoice " + std::to_string(invoice.number) + " for " + invoice.customer + "\n";
  double total = 0;
  for (size_t i = 0; i < invoice.lines.size(); i++) {
    const Line &line = invoice.lines[i];
    std::string amount = form == Form::slow ? format_amount(amount_of(line)) : amounts[i];
    page.append(line.article).append(std::max<size_t>(1, 30 - line.article.size()), '.');
    page.append(std::to_string(line.pieces)).append(width + 2 - amount.size(), ' ').append(amount).append("\n");
    total += amount_of(line);
  }
  return page + "Total " + std::to_string(long(total)) + "\n";
}

// As a printer takes it: no byte that means something to it, and a sum at each line's end.
__attribute__((noinline)) static size_t encode_page(const std::string &page, uint32_t &sum) {
  std::string encoded;
  for (unsigned char letter : page) {
    if (letter < 32 || letter == '=')
      encoded.append({'=', "0123456789ABCDEF"[letter >> 4], "0123456789ABCDEF"[letter & 15]});
    else
      encoded.push_back(char(letter));
    for (int bit = 0; bit < 8; bit++) sum = (sum >> 1) ^ ((sum ^ letter >> bit) & 1 ? 0xedb88320u : 0);
  }
  return encoded.size();
}

int main(int count, char **words) {
  if (count > 1) form = std::string_view(words[1]) == "repaired" ? Form::repaired : Form::doubled;
  size_t bytes = 0;
  uint32_t sum = ~0u;
  for (int number = 0; number < INVOICES; number++) {
    Invoice invoice = read_invoice(number);
    sort_lines(invoice);
    merge_lines(invoice);
    bytes += encode_page(print_invoice(invoice), sum);
  }
  std::printf("%zu bytes, sum %08x\n", bytes, sum);
}
