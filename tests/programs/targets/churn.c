/* Four threads allocate, free and lock: prints one sum, whatever the allocator. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long sum;

__attribute__((noinline)) static unsigned long churn(unsigned seed)
{
    void *kept[64] = {0};
    unsigned long found = 0;
    for (int n = 0; n < 2000; n++) {
        seed = seed * 1103515245 + 12345;
        unsigned at = seed >> 16 & 63;
        size_t size = 1 + (seed >> 8 & 4095);
        free(kept[at]);
        kept[at] = malloc(size);
        memset(kept[at], seed & 255, size);
        found += ((unsigned char *)kept[at])[size - 1];
    }
    for (int n = 0; n < 64; n++)
        free(kept[n]);
    return found;
}

static void *work(void *number)
{
    for (int n = 0; n < 5; n++) {
        unsigned long found = churn((unsigned)(long)number * 1000 + n);
        pthread_mutex_lock(&lock);
        sum += found;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[4];
    for (long n = 0; n < 4; n++)
        pthread_create(&threads[n], NULL, work, (void *)n);
    for (int n = 0; n < 4; n++)
        pthread_join(threads[n], NULL);
    printf("%lu\n", sum);
    return 0;
}
