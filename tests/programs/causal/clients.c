/* A server that waits for its clients half of the time, with a thread that sleeps in the background: no request waits for that, so that the
 * sleep is worth nothing.
 *
 *     clients LINE PERCENT SECONDS ROLE PATH
 *
 * ROLE is `server`, or `client`, which is not measured: a load generator on several connections to a socket at PATH. */
#include "causal.h"
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { WORKERS = 2, CONNECTIONS = 8, MESSAGE = 64 };

static long answer_work, tidy_us;
static int epolls[WORKERS];
static struct sockaddr_un address = {.sun_family = AF_UNIX};

static void watch(int epoll, int fd) {
  struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
  epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static __attribute__((noinline)) void answer(int fd) {
  char message[MESSAGE];
  if (read(fd, message, MESSAGE) <= 0) {
    close(fd);
    return;
  }
  WORK(answer_work); /* line: answer */
  send(fd, message, MESSAGE, MSG_NOSIGNAL);
  VITALFEW_PROGRESS("request");
  progress();
}

static void *serve(void *epoll) {
  for (;;) {
    struct epoll_event events[CONNECTIONS];
    int ready = epoll_wait(*(int *)epoll, events, CONNECTIONS, -1);
    for (int i = 0; i < ready; i++) answer(events[i].data.fd);
  }
  return NULL;
}

static void *tidy(void *nothing) {
  for (;;) {
    usleep(tidy_us); /* line: tidy */
    WORK(5000);
  }
  return nothing;
}

static void *accept_all(void *listener) {
  for (int i = 0;; i++) {
    int fd = accept(*(int *)listener, NULL, NULL);
    if (fd >= 0) watch(epolls[i % WORKERS], fd);
  }
  return NULL;
}

static void start_server(void) {
  static int listener;
  pthread_t thread;
  listener = socket(AF_UNIX, SOCK_STREAM, 0);
  unlink(address.sun_path);
  if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, CONNECTIONS)) exit(1);
  for (int i = 0; i < WORKERS; i++) {
    epolls[i] = epoll_create1(0);
    pthread_create(&thread, NULL, serve, &epolls[i]);
  }
  pthread_create(&thread, NULL, tidy, NULL);
  pthread_create(&thread, NULL, accept_all, &listener);
}

static int ask(void) {
  int epoll = epoll_create1(0);
  char message[MESSAGE] = {0};
  for (int i = 0; i < CONNECTIONS; i++) {
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    while (connect(fd, (struct sockaddr *)&address, sizeof address)) usleep(10000);
    watch(epoll, fd);
    send(fd, message, MESSAGE, MSG_NOSIGNAL);
  }
  for (;;) {
    struct epoll_event events[CONNECTIONS];
    int ready = epoll_wait(epoll, events, CONNECTIONS, -1);
    for (int i = 0; i < ready; i++) {
      if (read(events[i].data.fd, message, MESSAGE) <= 0) return 0;
      WORK(100000);
      send(events[i].data.fd, message, MESSAGE, MSG_NOSIGNAL);
    }
  }
}

int main(int argc, char **argv) {
  setup(argc, argv);
  if (argc < 6) return 1;
  strncpy(address.sun_path, argv[5], sizeof address.sun_path - 1);
  if (strcmp(argv[4], "client") == 0) return ask();
  answer_work = work("answer", 60000);
  tidy_us = work("tidy", 1000);
  start_server();
  run_for_a_while();
  return finish();
}
