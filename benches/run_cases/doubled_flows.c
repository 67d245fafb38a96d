/* flows: a router looks for flows that are too old after each packet; repaired, after each thousandth; doubled, after each second one.
   doubled_flows [repaired | doubled] */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PACKETS = 500000, FLOWS = 2048, PAYLOAD = 512, OLD = 1500, NODES = 1 << 16 };

struct flow {
  uint32_t source, target;
  uint16_t source_port, target_port;
  long last_seen, packets, bytes;
};

struct packet {
  uint32_t source, target;
  uint16_t source_port, target_port, sum, length;
  uint8_t payload[PAYLOAD];
};

struct node {
  int next[2];
  int hop;
};

static struct flow flows[FLOWS];
static struct node nodes[NODES];
static int node_count = 1;
static long expired;

__attribute__((noinline)) static void expire_flows(long now) {
  for (int at = 0; at < FLOWS; at++) {
    struct flow *flow = &flows[at];
    if (flow->packets && now - flow->last_seen > OLD) {
      expired++;
      memset(flow, 0, sizeof *flow);
    }
  }
}

static void add_route(uint32_t prefix, int length, int hop) {
  int node = 0;
  for (int bit = 0; bit < length; bit++) {
    int side = prefix >> (31 - bit) & 1;
    if (!nodes[node].next[side]) {
      if (node_count == NODES) exit(1);
      nodes[node].next[side] = node_count++;
    }
    node = nodes[node].next[side];
  }
  nodes[node].hop = hop;
}

/* The hop of the longest prefix that fits. */
__attribute__((noinline)) static int find_hop(uint32_t target) {
  int node = 0, hop = 0;
  for (int bit = 0; bit < 32; bit++) {
    node = nodes[node].next[target >> (31 - bit) & 1];
    if (!node) break;
    if (nodes[node].hop) hop = nodes[node].hop;
  }
  return hop;
}

__attribute__((noinline)) static uint16_t checksum(const uint8_t *bytes, size_t length) {
  uint32_t sum = 0;
  for (size_t at = 0; at + 1 < length; at += 2) {
    sum += (uint32_t)bytes[at] << 8 | bytes[at + 1];
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return (uint16_t)~sum;
}

__attribute__((noinline)) static void receive_packet(struct packet *packet, long number) {
  uint32_t seed = (uint32_t)number * 2654435761u;
  packet->source = 0x0a000000 | (seed >> 12 & 0x3ff);
  packet->target = 0xc0a80000 | (seed >> 7 & 0xffff);
  packet->source_port = htons(40000 + (seed & 63));
  packet->target_port = htons(seed & 1 ? 443 : 80);
  packet->length = PAYLOAD - (seed >> 28) * 8;
  for (size_t at = 0; at < packet->length; at += 4) {
    seed = seed * 1664525 + 1013904223;
    memcpy(packet->payload + at, &seed, sizeof seed);
  }
  packet->sum = checksum(packet->payload, packet->length);
}

__attribute__((noinline)) static struct flow *find_flow(const struct packet *packet) {
  uint32_t hash = (packet->source * 31 + packet->target) * 31 + packet->source_port * 7 + packet->target_port;
  uint32_t at = hash * 2654435761u >> 21;
  struct flow *flow = &flows[at % FLOWS];
  if (flow->source != packet->source || flow->target != packet->target) {
    /* Whoever was there last makes room. */
    memset(flow, 0, sizeof *flow);
    flow->source = packet->source;
    flow->target = packet->target;
    flow->source_port = packet->source_port;
    flow->target_port = packet->target_port;
  }
  return flow;
}

int main(int words, char **word) {
  const long every = words == 1 ? 1 : strcmp(word[1], "repaired") ? 2 : 1000;
  for (uint32_t net = 0; net < 256; net++) {
    add_route(0xc0a80000 | net << 8, 24, (int)(net % 13) + 1);
    if (net % 4 == 0) add_route(0xc0a80000 | net << 8 | 128, 25, (int)(net % 5) + 20);
  }
  add_route(0, 1, 1);
  static struct packet packet;
  long by_hop[32] = {0}, damaged = 0;
  for (long number = 0; number < PACKETS; number++) {
    receive_packet(&packet, number);
    if (checksum(packet.payload, packet.length) != packet.sum) {
      damaged++;
      continue;
    }
    struct flow *flow = find_flow(&packet);
    flow->last_seen = number;
    flow->packets++;
    flow->bytes += packet.length;
    by_hop[find_hop(packet.target) & 31] += packet.length;
    if (number % every == 0) expire_flows(number);
  }
  for (int hop = 0; hop < 32; hop++)
    if (by_hop[hop]) printf("hop %d: %ld bytes\n", hop, by_hop[hop]);
  printf("%ld flows expired, %ld packets damaged\n", expired, damaged);
}
