// Functions that no jump can be put in front of, called by two threads: refused [EXECUTED].
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

// tiny: three bytes, and no room behind it. turns: a jump back to its first byte. early: what it calls leaves it by a
// long jump at times; the call is among its first bytes.
__asm__(".text\n.globl tiny, turns, early\n"
        ".type tiny, @function\ntiny: .cfi_startproc\n mov %edi, %eax\n ret\n.cfi_endproc\n.size tiny, . - tiny\n"
        ".type turns, @function\nturns: .cfi_startproc\n dec %edi\n jnz turns\n mov $7, %eax\n ret\n.cfi_endproc\n"
        ".size turns, . - turns\n"
        ".type early, @function\nearly: .cfi_startproc\n push %rbx\n.cfi_adjust_cfa_offset 8\n call leaves\n"
        " pop %rbx\n.cfi_adjust_cfa_offset -8\n ret\n.cfi_endproc\n.size early, . - early\n");
int tiny(int number);
int turns(int number);
int early(int number);

static __thread jmp_buf out;
int leaves(int number) {
  if (number % 10 == 9) longjmp(out, 1);
  return number;
}

__attribute__((noinline)) static long outer(int number) {
  long sum = tiny(number) + turns(5);
  if (setjmp(out) == 0) sum += early(number);
  return sum;
}

static void *body(void *at) {
  long sum = 0;
  for (int i = 0; i < 500; i++) sum += outer(i);
  printf("%ld\n", sum);
  return at;
}

int main(int argc, char **argv) {
  if (argc > 1) {
    execl(argv[1], argv[1], (char *)0);
    return 1;
  }
  pthread_t thread;
  pthread_create(&thread, NULL, body, NULL);
  pthread_join(thread, NULL);
  body(NULL);
  return 0;
}
