/* Each node of a list leads to an item, and one in four of the items takes another way: where the next branches go
 * follows from memory alone, two loads away from a register. list SECONDS */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NODES 256

struct item {
	long kind;
};
struct node {
	struct node *next;
	struct item *item;
};

static struct node nodes[NODES];
static struct item items[NODES];
static volatile unsigned long sink;

__attribute__((noinline)) unsigned long walk(const struct node *node)
{
	unsigned long sum = 0;

	for (; node; node = node->next) {
		if (node->item->kind == 1)
			sink = sum += 3;
		else
			sum ^= sum << 1 | 1;
	}
	return sum;
}

int main(int argc, char **argv)
{
	time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 1);
	unsigned long x = 88172645463325252ul, sum = 0;

	/* Items in any order, nodes in another. */
	for (int i = 0; i < NODES; i++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		items[i].kind = x % 4 == 0;
		nodes[i].item = &items[i * 77 % NODES];
		nodes[i * 45 % NODES].next = i + 1 < NODES ? &nodes[(i + 1) * 45 % NODES] : NULL;
	}
	while (time(NULL) <= end)
		for (int i = 0; i < 1000; i++)
			sum += walk(&nodes[0]);
	printf("%d\n", sum != 0);
	return 0;
}
