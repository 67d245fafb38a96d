// Counts the lines of its input, or of as many of them as the first argument says, and prints how many there were and a checksum that takes
// some time; says something on standard error; appends a line to the file that the second argument names. A terminal it does not read.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((noinline)) static uint64_t mix(const char *text, uint64_t sum) {
  for (int round = 0; round < 20; round++)
    for (const char *at = text; *at; at++) sum = (sum ^ (unsigned char)*at) * 0x100000001b3u;
  return sum;
}

int main(int argc, char **argv) {
  long most = argc > 1 ? atol(argv[1]) : -1, lines = 0;
  uint64_t sum = 1;
  char line[256];
  fputs("error output\n", stderr);
  if (isatty(0)) {
    for (long i = 0; i < 300000; i++) sum = mix("a line of text", sum);
  } else {
    while (lines != most && fgets(line, sizeof line, stdin)) {
      sum = mix(line, sum);
      lines++;
    }
  }
  if (argc > 2) {
    FILE *side = fopen(argv[2], "a");
    if (!side || fputs("once\n", side) < 0 || fclose(side)) return 1;
  }
  printf("%ld lines, %s %llx\n", lines, isatty(1) ? "terminal" : "output", (unsigned long long)sum);
  return 0;
}
