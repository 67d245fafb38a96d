/* An interpreter that looks like CRuby 3.1 to those who read its structures from outside, and keeps in them what argument 1 says:
 * frames that are as they should be, or what no interpreter would write. Computes for argument 2 seconds. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SHOWN __attribute__((visibility("default")))
#define FRAME 64
#define FRAMES 700
typedef struct { _Alignas(8) uint8_t bytes[256]; } object;

SHOWN const int ruby_api_version[3] = { 3, 1, 0 };
SHOWN _Thread_local void *ruby_current_ec;
SHOWN void rb_yield(void) {}

static object context, sequence, body, file, name, words;
/* The stack of values, at whose end frames lie; the last one is the innermost. */
static _Alignas(8) uint8_t values[FRAME * FRAMES];
static uint64_t plain_flags, last_flags = 0x20;
static volatile unsigned long sink;

static void put(void *at, int offset, const void *value) { memcpy((char *)at + offset, &value, 8); }
static void put_number(void *at, int offset, uint64_t value) { memcpy((char *)at + offset, &value, 8); }

static void text(object *at, const char *text)
{
	put_number(at, 0, 5 | strlen(text) << 14); /* its length is in its flags */
	strcpy((char *)at->bytes + 16, text);
}

/* Two methods, called from C. */
static void build(void)
{
	put(&context, 0, values);
	put_number(&context, 8, sizeof(values) / 8);
	put(&context, 16, values + FRAME * (FRAMES - 2));
	put_number(&sequence, 0, 0x1a | 7 << 12);
	put(&sequence, 16, &body);
	put_number(&body, 0, 8ull << 32); /* eight positions */
	put(&body, 8, &words);
	text(&file, "/srv/hostile.rb");
	text(&name, "victim");
	put(&body, 64, &file);
	put(&body, 80, &name);
	put_number(&body, 88, 7 << 1 | 1);
	for (int i = 0; i < FRAMES; i++) {
		uint8_t *frame = values + FRAME * i;
		put(frame, 0, words.bytes + 8);
		put(frame, 16, &sequence);
		put(frame, 32, i == FRAMES - 1 ? &last_flags : &plain_flags);
	}
	ruby_current_ec = &context;
}

static void spoil(const char *how)
{
	uint8_t *frame = values + FRAME * (FRAMES - 2);
	if (!strcmp(how, "endless")) { /* as many frames as there is room for, and none says that it is the last */
		last_flags = 0;
		put(&context, 16, values);
		put_number(&context, 8, 1ull << 31);
	} else if (!strcmp(how, "garbage")) {
		put(frame, 16, (void *)0x4141414141414141);
	} else if (!strcmp(how, "kernel")) {
		put(&context, 16, (void *)0xffffffff81000000);
		put(&context, 0, (void *)0xffffffff80000000);
	} else if (!strcmp(how, "giant")) {
		put_number(&name, 0, 5 | 1 << 13);
		put_number(&name, 16, 1ull << 62);
		put_number(&body, 136, 0xffffffff);
	} else if (!strcmp(how, "itself")) { /* a path that is a list of itself */
		put_number(&file, 0, 7 | 1 << 13);
		put(&file, 16, &file);
		put(&file, 24, &file);
	}
}

SHOWN __attribute__((noipa)) void rb_vm_exec(double seconds, int rewrite)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	double end = now.tv_sec + now.tv_nsec / 1e9 + seconds;
	do {
		for (int i = 0; i < 20000; i++) {
			sink = sink * 6364136223846793005 + i;
			if (rewrite) /* each time something else */
				put_number(values + FRAME * (FRAMES - 2 + i % 2), i % 3 ? 16 : 32, sink >> (sink & 63));
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec + now.tv_nsec / 1e9 < end);
	sink++;
}

int main(int count, char **arguments)
{
	const char *how = count > 1 ? arguments[1] : "good";
	build();
	spoil(how);
	rb_vm_exec(count > 2 ? atof(arguments[2]) : 1, !strcmp(how, "rewrite"));
	return 0;
}
