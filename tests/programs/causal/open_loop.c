/* Requests are due by the clock, whatever the server does: the client sleeps until the time of the next one, so that
 * after a delay it would catch up. The rate is that of the clock; what a faster handler is worth is latency. Prints
 * the mean latency, or with `rate` as its fourth argument the requests a second. */
#define BY_THE_CLOCK
#include "server.c"
