// What `spirula bench` runs. bench.bc64 is made of it by
// clang-14 -target spir64-unknown-unknown -cl-std=CL1.2 -x cl -Xclang -finclude-default-header -c -emit-llvm -O1 bench.cl

// Twelve bytes for each work-item.
kernel void triad(global const float *a, global const float *b, global float *c, float factor)
{
    size_t i = get_global_id(0);
    c[i] = a[i] + factor * b[i];
}

// Twelve chains of operations that don't wait for each other, 24 operations for each round.
kernel void multiply_add(global float *result, float factor, float summand, int rounds)
{
    size_t i = get_global_id(0);
    float x = (float)i;
    float a = x, b = x + 1, c = x + 2, d = x + 3, e = x + 4, f = x + 5;
    float g = x + 6, h = x + 7, j = x + 8, k = x + 9, l = x + 10, m = x + 11;
    for (int round = 0; round < rounds; round++) {
        a = fma(a, factor, summand);
        b = fma(b, factor, summand);
        c = fma(c, factor, summand);
        d = fma(d, factor, summand);
        e = fma(e, factor, summand);
        f = fma(f, factor, summand);
        g = fma(g, factor, summand);
        h = fma(h, factor, summand);
        j = fma(j, factor, summand);
        k = fma(k, factor, summand);
        l = fma(l, factor, summand);
        m = fma(m, factor, summand);
    }
    result[i] = a + b + c + d + e + f + g + h + j + k + l + m;
}

kernel void nothing(global int *unused)
{
}
