/* An interpreter that looks like CPython 3.12 to those who read its structures from outside, and keeps in them what argument 1 says:
 * frames that are as they should be, or what no interpreter would write. Computes for argument 2 seconds. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <pthread.h>

#define SHOWN __attribute__((visibility("default")))
typedef struct { uint8_t bytes[256]; } object;

SHOWN unsigned long Py_Version = 0x030c01f0;
SHOWN object PyCode_Type;
SHOWN object _PyRuntime;
static object interpreter, thread, holder, frames[200], code, file, name, lines;
static volatile unsigned long sink;

static void put(object *at, int offset, const void *value) { memcpy(at->bytes + offset, &value, 8); }

static void text(object *at, const char *text)
{
	long length = strlen(text);
	put(at, 16, (void *)length);
	at->bytes[32] = 1 << 2 | 1 << 6; /* a byte a character, ASCII */
	strcpy((char *)at->bytes + 40, text);
}

/* A call of outer, which calls inner, from C. */
static void build(void)
{
	put(&_PyRuntime, 40, &interpreter);
	put(&interpreter, 72, &thread);
	put(&thread, 136, (void *)pthread_self());
	put(&thread, 56, &holder);
	put(&holder, 0, &frames[0]);
	put(&code, 8, &PyCode_Type);
	code.bytes[68] = 7;
	text(&file, "/srv/hostile.py");
	text(&name, "victim");
	put(&code, 112, &file);
	put(&code, 128, &name);
	put(&code, 136, &lines);
	for (int i = 0; i < 2; i++) {
		put(&frames[i], 0, &code);
		put(&frames[i], 8, &frames[i + 1]);
		put(&frames[i], 56, code.bytes + 192);
	}
	frames[2].bytes[70] = 3; /* a frame on the C stack */
}

static void spoil(const char *how)
{
	if (!strcmp(how, "cycle")) {
		put(&frames[1], 8, &frames[0]);
	} else if (!strcmp(how, "garbage")) {
		put(&frames[0], 0, (void *)0xdeadbeef0000);
		put(&frames[0], 8, (void *)0x4141414141414141);
	} else if (!strcmp(how, "kernel")) {
		put(&holder, 0, (void *)0xffffffff81000000);
	} else if (!strcmp(how, "threads")) {
		put(&thread, 136, (void *)1);
		put(&thread, 8, &thread);
	} else if (!strcmp(how, "giant")) {
		put(&name, 16, (void *)(1L << 62));
		put(&lines, 16, (void *)(1L << 62));
	}
}

SHOWN __attribute__((noipa)) void _PyEval_EvalFrameDefault(double seconds, int rewrite)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	double end = now.tv_sec + now.tv_nsec / 1e9 + seconds;
	do {
		for (int i = 0; i < 20000; i++) {
			sink = sink * 6364136223846793005 + i;
			if (rewrite) /* each time something else */
				put(&frames[i % 2], i % 3 ? 8 : 0, (void *)(sink >> (sink & 63)));
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec + now.tv_nsec / 1e9 < end);
	sink++;
}

int main(int count, char **words)
{
	const char *how = count > 1 ? words[1] : "good";
	build();
	spoil(how);
	_PyEval_EvalFrameDefault(count > 2 ? atof(words[2]) : 1, !strcmp(how, "rewrite"));
	return 0;
}
