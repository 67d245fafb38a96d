// An interpreter by computed goto, whose table no code shows, beside ordinary functions. Recordings of it are made up.

static void **labels;

__attribute__((noinline)) long interpret(const unsigned char *code, long value) {
    static void *all[] = {&&add, &&twice, &&negate, &&end};
    if (!code) {
        labels = all;
        return 0;
    }
    goto *labels[*code++];
add:
    value += 3;
    goto *labels[*code++];
twice:
    value *= 2;
    goto *labels[*code++];
negate:
    value = -value;
    goto *labels[*code++];
end:
    return value;
}

__attribute__((noinline)) long sum(const long *values, long count) {
    long all = 0;
    for (long i = 0; i < count; i++)
        if (values[i] & 1)
            all += values[i];
    return all;
}

__attribute__((noinline)) long seldom(long value) {
    return value * value + 1;
}

int main(int argc, char **argv) {
    static const unsigned char code[] = {0, 1, 2, 0, 3};
    long values[] = {1, 2, argc};
    (void)argv;
    interpret(0, 0);
    return (int)(interpret(code, argc) + sum(values, 3) + seldom(argc)) & 1;
}
