// Calls the C library's string functions on changing texts, and number by number what compilers make of
// them: what path bursts must follow without running the program. Prints a sum that depends on all of it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[4096], other[4096];

__attribute__((noinline)) static unsigned long search(unsigned at) {
    unsigned long sum = strlen(text + at);
    sum += memchr(text + at, 'q', 300) != NULL;
    sum += strchr(text + at, 'z') != NULL;
    sum += strspn(text + at, "abcdefghij") + strcspn(text + at, "xyz");
    sum += strnlen(text + at, 77);
    char *last = strrchr(text + at, 'k');
    return sum + (last ? (unsigned long)(last - text) : 3);
}

__attribute__((noinline)) static unsigned long compare(unsigned at, unsigned with) {
    unsigned long sum = strcmp(text + at, other + with) < 0;
    sum += memcmp(text + at, other + with, 40 + with % 60) > 0;
    sum += strncmp(text + at, other + at, 50) == 0;
    sum += strstr(text + at, "bcd") != NULL;
    return sum;
}

__attribute__((noinline)) static void change(unsigned at, unsigned long by) {
    memcpy(other + at, text + at / 2, 1 + by % 200);
    memset(other + at + 300, 'a' + by % 26, by % 40);
    memmove(other + at, other + at + 7, by % 500);
    strcpy(other + 3000, text + 3900);
    text[at] = (char)('a' + by % 26);
    if (by % 7 == 0)
        text[at] = 0;
}

__attribute__((noinline)) static float average(const float *of, int count, double least) {
    float sum = 0;
    for (int i = 0; i < count; i++)
        if (of[i] > (float)least)
            sum += of[i] / (float)(i + 1);
    return sum;
}

int main(void) {
    unsigned long sum = 0, random = 88172645463325252ul;
    float numbers[32];
    for (int i = 0; i < 4095; i++)
        text[i] = other[i] = (char)('a' + i * 7 % 26);
    for (int round = 0; round < 100000000; round++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        unsigned at = random % 3000, with = (random >> 20) % 3000;
        sum += search(at) + compare(at, with);
        change(with, random >> 33);
        numbers[round % 32] = (float)(random % 1000) * 0.5f;
        if (average(numbers, round < 32 ? round : 32, (double)(random % 500)) > 100)
            sum++;
    }
    printf("%lu\n", sum);
    return 0;
}
