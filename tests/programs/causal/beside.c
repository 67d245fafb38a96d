/* One thread that works beside other programs; one half of its work is the line:
 *
 *     beside [LINE [PERCENT [SECONDS [ROLE [PATH]]]]]
 *
 * ROLE is `alone`, `writer` (it writes a record to its standard output for each piece), `server` (it answers requests
 * that come through a socket at PATH), and of what is not measured `hog`, `reader` (of its standard input) and `client`. */
#include "causal.h"
#include <sys/socket.h>
#include <sys/un.h>

static char record[4096];

static int open_socket(const char *path, int is_server) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  int made = socket(AF_UNIX, SOCK_STREAM, 0);
  if (is_server) {
    unlink(path);
    if (bind(made, (struct sockaddr *)&address, sizeof address) || listen(made, 1)) exit(1);
    return accept(made, NULL, NULL);
  }
  while (connect(made, (struct sockaddr *)&address, sizeof address)) usleep(10000);
  return made;
}

static void keep_busy(int in, int out, long n) {
  for (;;) {
    if (in >= 0 && read(in, record, sizeof record) <= 0) exit(0);
    WORK(n);
    if (out >= 0 && write(out, record, 1) != 1) exit(0);
  }
}

int main(int argc, char **argv) {
  setup(argc, argv);
  const char *role = argc > 4 ? argv[4] : "alone";
  int in = -1, out = -1;
  size_t length = 1;
  if (strcmp(role, "hog") == 0) keep_busy(-1, -1, 1000000);
  if (strcmp(role, "reader") == 0) keep_busy(0, -1, 500000);
  if (strcmp(role, "client") == 0) {
    in = open_socket(argv[5], 0);
    if (write(in, record, 2) != 2) return 1;
    keep_busy(in, in, 300000);
  }
  if (strcmp(role, "server") == 0) in = out = open_socket(argv[5], 1);
  if (strcmp(role, "writer") == 0) out = 1, length = sizeof record;
  long half = work("half", 500000), rest = work("rest", 500000);
  while (now() - started < knob_seconds) {
    if (in >= 0 && read(in, record, 1) != 1) break;
    WORK(half); /* line: half */
    WORK(rest); /* line: rest */
    VITALFEW_PROGRESS("piece");
    progress();
    if (out >= 0 && write(out, record, length) != (ssize_t)length) break;
  }
  if (out == 1) fprintf(stderr, "rate %.4f\n", (double)atomic_load(&visits) / (now() - started));
  return out == 1 ? 0 : finish();
}
