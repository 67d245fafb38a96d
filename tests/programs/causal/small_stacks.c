/* Threads with the smallest stacks, of which they use all but BYTES: `small_stacks BYTES`. */
#define _GNU_SOURCE
#include <alloca.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int over;
static size_t left;

__attribute__((noinline)) void serve(void)
{
	for (volatile int i = 0; i < 20000; i++)
		;
}

__attribute__((noinline)) static void use_stack(size_t used)
{
	volatile char *bytes = alloca(used);
	memset((char *)bytes, 1, used);
	while (!over)
		serve();
	bytes[0] = 0;
}

static void *work(void *argument)
{
	pthread_attr_t attributes;
	void *low;
	size_t size;
	pthread_getattr_np(pthread_self(), &attributes);
	pthread_attr_getstack(&attributes, &low, &size);
	use_stack((size_t)((char *)&size - (char *)low) - left);
	return argument;
}

int main(int count, char **arguments)
{
	pthread_t threads[2];
	pthread_attr_t attributes;
	left = (size_t)(count > 1 ? atoi(arguments[1]) : 4096);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], &attributes, work, NULL))
			return 1;
	sleep(1);
	over = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	puts("fine");
	return 4;
}
