/* vowels: the length of a text is taken anew for each letter; repaired, once. further_vowels [repaired] */
#include "work.h"

APART static unsigned long count_vowels(const char *text) {
  unsigned long vowels = 0;
  size_t length = strlen(text);
  for (size_t at = 0; at < (repaired ? length : strlen(text)); at++) {
    char letter = text[at];
    vowels += letter == 'a' || letter == 'e' || letter == 'i' || letter == 'o' || letter == 'u';
    __asm__ volatile("" : : "r"(text) : "memory");
  }
  return vowels;
}

APART static unsigned long fill_text(char *text, size_t length, unsigned long number) {
  for (size_t at = 0; at < length; at++) {
    number = DIGEST(number, 4);
    text[at] = 'a' + number % 26;
  }
  text[length] = 0;
  return number;
}

int main(int words, char **unused) {
  (void)unused;
  repaired = words > 1;
  char *text = malloc(20001);
  unsigned long sum = 1, vowels = 0;
  for (int i = 0; i < 160; i++) {
    sum = fill_text(text, 20000, sum + i);
    vowels += count_vowels(text);
  }
  printf("%lu\n", vowels);
  free(text);
}
