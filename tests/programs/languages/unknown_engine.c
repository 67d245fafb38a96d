/* Says that it is a version of V8 that was never tried, and runs for half a second. */
#include <time.h>

int v8dbg_off_fp_function = 1;
int _ZN2v88internal7Version6major_E = 99, _ZN2v88internal7Version6minor_E = 1;

int main(void) {
    volatile unsigned long sum = 0;
    clock_t end = clock() + CLOCKS_PER_SEC / 2;
    while (clock() < end)
        for (int i = 0; i < 100000; i++) sum += i;
    return 0;
}
