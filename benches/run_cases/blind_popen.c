/* popen: a word's length is asked of a shell; repaired, of the C library. blind_popen [repaired] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long mix_word(const char *word) {
  unsigned long sum = 5381;
  for (int round = 0; round < 2000; round++)
    for (const char *at = word; *at; at++) sum = sum * 33 ^ (unsigned char)*at;
  return sum;
}

static int length_by_shell(const char *word) {
  char command[200], answer[20] = "0";
  snprintf(command, sizeof command, "printf %%s '%s' | wc -c", word);
  FILE *shell = popen(command, "r");
  if (!shell || !fgets(answer, sizeof answer, shell)) exit(1);
  pclose(shell);
  return atoi(answer);
}

int main(int count, char **words) {
  (void)words;
  unsigned long sum = 0;
  for (int number = 0; number < 400; number++) {
    char word[60];
    snprintf(word, sizeof word, "the word of number %d", number * 7919);
    sum += mix_word(word) % 100 + (count > 1 ? (int)strlen(word) : length_by_shell(word));
  }
  printf("%lu\n", sum);
}
