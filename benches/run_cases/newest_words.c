/* words: each word is appended to a text whose end is sought anew; repaired, the end is known. newest_words [repaired] */
#include "work.h"

typedef struct {
  char *text;
  size_t length;
} page;

APART static void append_word(page *to, const char *word) {
  if (repaired) {
    size_t more = strlen(word);
    memcpy(to->text + to->length, word, more + 1);
    to->length += more;
  } else {
    strcat(to->text, word);
  }
}

APART static unsigned long spell_word(char *word, unsigned long number) {
  unsigned long sum = DIGEST(number, 60);
  snprintf(word, 32, "word%lu ", sum % 100000);
  return sum;
}

int main(int words, char **unused) {
  (void)unused;
  repaired = words > 1;
  unsigned long sum = 0;
  for (int i = 0; i < 12; i++) {
    page book = {calloc(1, 1 << 20), 0};
    for (unsigned long number = 0; number < 20000; number++) {
      char word[32];
      sum ^= spell_word(word, number * 12 + i);
      append_word(&book, word);
    }
    free(book.text);
  }
  printf("%lu\n", sum);
}
