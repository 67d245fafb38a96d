/* Computes and writes an answer again and again, all in one function that is called once, until it is ended. */
#include <unistd.h>

int main(void) {
  for (;;) {
    for (volatile long i = 0; i < 500000; i++)
      asm volatile("");
    if (write(1, "answer\n", 7) < 0)
      return 1;
    usleep(1000);
  }
}
