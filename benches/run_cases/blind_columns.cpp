// columns: a table of rows is added up column by column; repaired, row by row. blind_columns [repaired]
#include <cstdint>
#include <cstdio>
#include <vector>

constexpr int ROWS = 4096, COLUMNS = 4096;

struct Table {
  std::vector<uint32_t> cells = std::vector<uint32_t>(size_t(ROWS) * COLUMNS);
  uint32_t &at(int row, int column) { return cells[size_t(row) * COLUMNS + column]; }
};

__attribute__((noinline)) static void sum_columns(Table &table, std::vector<uint64_t> &sums, bool by_rows) {
  if (by_rows) {
    for (int row = 0; row < ROWS; row++)
      for (int column = 0; column < COLUMNS; column++) sums[column] += table.at(row, column);
  } else {
    for (int column = 0; column < COLUMNS; column++)
      for (int row = 0; row < ROWS; row++) sums[column] += table.at(row, column);
  }
}

__attribute__((noinline)) static void fill_table(Table &table) {
  uint32_t seed = 1;
  for (auto &cell : table.cells) cell = (seed = seed * 1664525 + 1013904223) >> 20;
}

int main(int count, char **) {
  Table table;
  fill_table(table);
  std::vector<uint64_t> sums(COLUMNS);
  for (int round = 0; round < 30; round++) sum_columns(table, sums, count > 1);
  uint64_t all = 0;
  for (uint64_t sum : sums) all += sum;
  std::printf("%llu\n", (unsigned long long)all);
}
