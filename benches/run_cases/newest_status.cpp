// status: whether a job is done is asked again and again, with a pause in between; repaired, the answer comes when it is. newest_status [repaired]
#include <cstdio>
#include <cstdlib>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct Job {
  int number;
  bool wait;
};

static unsigned long work(unsigned long sum, int rounds) {
  for (int i = 0; i < rounds; i++) {
    sum = 0xfedcba9876543210u / (sum | 1) + i;
    __asm__ volatile("" : "+r"(sum));
  }
  return sum;
}

// Answers 1 when a job is done, 0 before: the fourth time that it is asked.
static void serve_jobs(int socket) {
  Job job;
  int asked = 0;
  while (read(socket, &job, sizeof job) == sizeof job) {
    char done = job.wait || ++asked % 4 == 0;
    if (write(socket, &done, 1) != 1) break;
  }
  _exit(0);
}

__attribute__((noinline)) static void await_job(int socket, const Job &job) {
  for (char done = 0; !done;) {
    if (write(socket, &job, sizeof job) < 0 || read(socket, &done, 1) != 1) exit(1);
    if (!done) poll(nullptr, 0, 2);
  }
}

int main(int count, char **) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 1;
  pid_t server = fork();
  if (!server) {
    close(ends[0]);
    serve_jobs(ends[1]);
  }
  close(ends[1]);
  unsigned long sum = 0;
  for (int number = 0; number < 200; number++) {
    await_job(ends[0], {number, count > 1});
    sum ^= work(number, 150000);
  }
  std::printf("%lu\n", sum);
  close(ends[0]);
  waitpid(server, nullptr, 0);
}
