// Runs a SPIR binary's kernel saxpy (y = a*x + y) through the ICD loader and checks every result.
//   cc tests/examples/saxpy.c -o saxpy -lOpenCL && ./saxpy [tests/fixtures/bench/saxpy.bc64]
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define N 4096

static void check(cl_int status, const char *what) {
    if (status != CL_SUCCESS) { fprintf(stderr, "%s: error %d\n", what, status); exit(1); }
}

// The first device of any platform that takes SPIR.
static cl_device_id find_device(void) {
    cl_platform_id platforms[16];
    cl_device_id device;
    cl_uint count = 0;
    check(clGetPlatformIDs(16, platforms, &count), "clGetPlatformIDs");
    for (cl_uint i = 0; i < count && i < 16; i++) {
        char extensions[8192] = "";
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS
            && clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, sizeof extensions, extensions, NULL) == CL_SUCCESS
            && strstr(extensions, "cl_khr_spir")) return device;
    }
    fprintf(stderr, "no device takes SPIR\n");
    exit(1);
}

int main(int argc, char **argv) {
    static char binary[1 << 20], log[65536];
    static float x[N], y[N];
    FILE *file = fopen(argc > 1 ? argv[1] : "tests/fixtures/bench/saxpy.bc64", "rb");
    if (!file) return perror("the SPIR binary"), 1;
    size_t length = fread(binary, 1, sizeof binary, file), global = N;
    const unsigned char *start = (unsigned char *)binary;
    for (int i = 0; i < N; i++) x[i] = i, y[i] = 1;
    cl_int e;
    cl_device_id device = find_device();
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &e); check(e, "clCreateContext");
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &e); check(e, "clCreateCommandQueue");
    cl_program program = clCreateProgramWithBinary(context, 1, &device, &length, &start, NULL, &e);
    check(e, "clCreateProgramWithBinary");
    if ((e = clBuildProgram(program, 1, &device, "-x spir -spir-std=1.2", NULL, NULL)) != CL_SUCCESS) {
        clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
        fprintf(stderr, "%s\n", log);
        check(e, "clBuildProgram");
    }
    cl_kernel kernel = clCreateKernel(program, "saxpy", &e); check(e, "clCreateKernel");
    cl_mem xs = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof x, x, &e); check(e, "clCreateBuffer");
    cl_mem ys = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof y, y, &e); check(e, "clCreateBuffer");
    check(clSetKernelArg(kernel, 0, sizeof xs, &xs) | clSetKernelArg(kernel, 1, sizeof ys, &ys)
        | clSetKernelArg(kernel, 2, sizeof(float), &(float){2}), "clSetKernelArg");
    check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL), "clEnqueueNDRangeKernel");
    check(clEnqueueReadBuffer(queue, ys, CL_TRUE, 0, sizeof y, y, 0, NULL, NULL), "clEnqueueReadBuffer");
    for (int i = 0; i < N; i++)
        if (y[i] != 2.0f * i + 1) { printf("y[%d] is %g instead of %g\n", i, y[i], 2.0 * i + 1); return 1; }
    printf("%d results are right\n", N);
    return 0; // What was created goes with the process.
}
