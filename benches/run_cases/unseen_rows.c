// rows: OpenMP gives each thread half of a triangle's rows; repaired, some at a time. unseen_rows [repaired]
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 1600 };
static double matrix[ROWS][ROWS], sums[ROWS];

__attribute__((noinline)) static double reduce_row(int row) {
  double sum = 1;
  for (int column = 0; column <= row; column++) sum = matrix[row][column] + sum / 1.0001;
  return sum;
}

static void reduce_matrix(void) {
#pragma omp parallel for schedule(runtime)
  for (int row = 0; row < ROWS; row++) sums[row] = reduce_row(row);
}

int main(int count, char **words) {
  (void)words;
  omp_set_num_threads(2);
  omp_set_schedule(count > 1 ? omp_sched_dynamic : omp_sched_static, count > 1 ? 16 : 0);
  for (int row = 0; row < ROWS; row++)
    for (int column = 0; column < ROWS; column++) matrix[row][column] = row * 0.5 + column;
  for (int step = 0; step < 220; step++) reduce_matrix();
  printf("%g\n", sums[ROWS - 1]);
}
