/* meter: a concentrator sends packed readings of electricity meters to a head end, which checks and sums them up.
   meter [repaired] */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define METERS 4000
#define BATCHES 70

struct header {
    uint32_t length, count, crc;
};

static int repaired;
static uint32_t crc_table[256];
static uint64_t usage[METERS];

static void make_crc_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
        crc_table[i] = c;
    }
}

static uint32_t crc32_of(const uint8_t *p, size_t n)
{
    uint32_t c = ~0u;
    while (n--)
        c = crc_table[(c ^ *p++) & 255] ^ (c >> 8);
    return ~c;
}

static int receive_all(int fd, void *to, size_t n)
{
    char *p = to;
    while (n) {
        ssize_t got = recv(fd, p, n, 0);
        if (got <= 0)
            return -1;
        p += got;
        n -= got;
    }
    return 0;
}

/* The meters' next readings: a day's load curve of 15 minutes each, from which the energy comes. */
static void read_meters(uint32_t *energy, uint32_t day)
{
    for (uint32_t m = 0; m < METERS; m++) {
        uint32_t x = m * 2654435761u + day * 40503u, sum = 0;
        for (int quarter = 0; quarter < 960; quarter++) {
            x ^= x << 13, x ^= x >> 17, x ^= x << 5;
            sum += x % (quarter > 400 ? 90 : 30);
        }
        energy[m] = sum;
    }
}

static size_t pack(const uint32_t *energy, uint8_t *out)
{
    uint8_t *p = out;
    for (int m = 0; m < METERS; m++) {
        uint32_t v = energy[m];
        for (; v >= 128; v >>= 7)
            *p++ = v | 128;
        *p++ = v;
    }
    return p - out;
}

static void *head_end(void *arg)
{
    int fd = accept(*(int *)arg, NULL, NULL);
    static uint8_t body[METERS * 5];
    struct header h;
    while (receive_all(fd, &h, sizeof h) == 0 && receive_all(fd, body, h.length) == 0) {
        uint32_t ok = crc32_of(body, h.length) == h.crc;
        const uint8_t *p = body;
        for (uint32_t m = 0; ok && m < h.count; m++) {
            uint32_t v = 0;
            for (int shift = 0;; shift += 7) {
                v |= (uint32_t)(*p & 127) << shift;
                if (!(*p++ & 128))
                    break;
            }
            usage[m] += v;
        }
        if (send(fd, &ok, sizeof ok, 0) < 0)
            break;
    }
    close(fd);
    return NULL;
}

static void send_batch(int fd, struct header *h, uint8_t *body)
{
    if (repaired) {
        struct iovec parts[2] = {{h, sizeof *h}, {body, h->length}};
        if (writev(fd, parts, 2) < 0)
            exit(1);
        return;
    }
    if (write(fd, h, sizeof *h) < 0 || write(fd, body, h->length) < 0)
        exit(1);
}

static uint32_t await_receipt(int fd)
{
    uint32_t ok = 0;
    receive_all(fd, &ok, sizeof ok);
    return ok;
}

int main(int argc, char **argv)
{
    repaired = argc > 1 && !strcmp(argv[1], "repaired");
    make_crc_table();
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    if (bind(listener, (void *)&a, len) || listen(listener, 1) || getsockname(listener, (void *)&a, &len))
        return 1;
    pthread_t server;
    pthread_create(&server, NULL, head_end, &listener);
    if (connect(fd, (void *)&a, len))
        return 1;
    static uint32_t energy[METERS];
    static uint8_t body[METERS * 5];
    uint32_t accepted = 0;
    for (uint32_t day = 0; day < BATCHES; day++) {
        read_meters(energy, day);
        struct header h = {.count = METERS};
        h.length = pack(energy, body);
        h.crc = crc32_of(body, h.length);
        send_batch(fd, &h, body);
        accepted += await_receipt(fd);
    }
    close(fd);
    pthread_join(server, NULL);
    uint64_t total = 0;
    for (int m = 0; m < METERS; m++)
        total += usage[m];
    printf("%u batches, %llu Wh\n", accepted, (unsigned long long)total);
}
