/* What a preloaded library must not change: signals and masks of the program's own, fork, vfork and exec,
 * cancellation, many threads. Prints what it finds; ends by SIGTERM, or with 7 if told how many threads. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int ticks;
static volatile unsigned long sum;
static sigjmp_buf back;

static void work(long n) {
  for (long i = 0; i < n; i++) sum += i;
}

static void tick(int signal) { ticks += signal == SIGPROF; }
static void fault(int signal) { siglongjmp(back, signal); }

static void *pauses(void *unused) {
  for (;;) pause();
  return unused;
}

static void *waits(void *unused) {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t never = PTHREAD_COND_INITIALIZER;
  pthread_mutex_lock(&lock);
  pthread_cond_wait(&never, &lock);
  return unused;
}

static void cancel(const char *name, void *(*routine)(void *)) {
  pthread_t thread;
  void *result;
  pthread_create(&thread, NULL, routine, NULL);
  usleep(10000);
  pthread_cancel(thread);
  pthread_join(thread, &result);
  printf("%s cancelled: %d\n", name, result == PTHREAD_CANCELED);
}

static pthread_barrier_t all_there;

static void *one_of_many(void *unused) {
  pthread_barrier_wait(&all_there);
  work(1000000);
  return unused;
}

static int many(int count) {
  pthread_t *threads = calloc(count, sizeof *threads);
  pthread_barrier_init(&all_there, NULL, count);
  for (int i = 0; i < count; i++)
    if (pthread_create(&threads[i], NULL, one_of_many, NULL)) return 1;
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
  puts("all done");
  return 7;
}

int main(int argc, char **argv) {
  if (argc > 1) return many(atoi(argv[1]));
  setvbuf(stdout, NULL, _IOLBF, 0);

  signal(SIGPROF, tick);
  struct itimerval every = {{0, 5000}, {0, 5000}}, none = {{0, 0}, {0, 0}};
  setitimer(ITIMER_PROF, &every, NULL);
  while (ticks < 20) work(1000000);
  setitimer(ITIMER_PROF, &none, NULL);
  puts("SIGPROF comes");

  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = fault;
  sigaction(SIGSEGV, &action, NULL);
  if (!sigsetjmp(back, 1)) *(volatile int *)8 = 1;
  puts("SIGSEGV is caught");

  sigset_t all, before, now;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  sigprocmask(SIG_SETMASK, NULL, &now);
  printf("SIGUSR1 is blocked: %d\n", sigismember(&now, SIGUSR1));
  work(100000000);
  sigprocmask(SIG_SETMASK, &before, NULL);

  struct pollfd nothing = {.fd = -1};
  printf("poll: %d\n", poll(&nothing, 1, 50));

  int status;
  pid_t child = fork();
  if (child == 0) {
    work(50000000);
    _exit(3);
  }
  waitpid(child, &status, 0);
  printf("forked child: %d\n", WEXITSTATUS(status));
  child = vfork();
  if (child == 0) {
    execlp("sh", "sh", "-c", "test -z \"$LD_PRELOAD$VITALFEW_PAGE\"", (char *)0);
    _exit(9);
  }
  waitpid(child, &status, 0);
  printf("clean environment: %d\n", WEXITSTATUS(status) == 0);

  /* A child on its way to another program blocks signals, and drops their handlers. */
  int ended = 0;
  for (int i = 0; i < 2000; i++) {
    char *arguments[] = {"true", NULL};
    ended += posix_spawnp(&child, "true", NULL, NULL, arguments, environ) == 0;
    waitpid(child, &status, 0);
    ended -= status != 0;
  }
  printf("spawned children: %d\n", ended);

  cancel("pause", pauses);
  cancel("wait", waits);
  raise(SIGTERM);
}
