// Runs a SPIR binary's kernel saxpy (y = a*x + y) through the ICD loader and checks every result.
//   c++ -std=c++17 tests/examples/saxpy.cpp -o saxpy -lOpenCL && ./saxpy [tests/fixtures/bench/saxpy.bc64]
#define CL_HPP_TARGET_OPENCL_VERSION 120
#define CL_HPP_MINIMUM_OPENCL_VERSION 120
#define CL_HPP_ENABLE_EXCEPTIONS
#include <CL/opencl.hpp>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <vector>

// The first device of any platform that takes SPIR.
static cl::Device find_device() {
    std::vector<cl::Platform> platforms;
    cl::Platform::get(&platforms);
    for (auto &platform : platforms) {
        std::vector<cl::Device> devices;
        platform.getDevices(CL_DEVICE_TYPE_ALL, &devices);
        for (auto &device : devices)
            if (device.getInfo<CL_DEVICE_EXTENSIONS>().find("cl_khr_spir") != std::string::npos) return device;
    }
    throw std::runtime_error("no device takes SPIR");
}

static void run(const char *path) {
    std::ifstream file(path, std::ios::binary);
    std::vector<unsigned char> spir{std::istreambuf_iterator<char>(file), {}};
    if (spir.empty()) throw std::runtime_error(std::string("can't read ") + path);

    cl::Device device = find_device();
    cl::Context context(device);
    cl::CommandQueue queue(context, device);
    cl::Program program(context, {device}, {spir});
    try {
        program.build("-x spir -spir-std=1.2");
    } catch (const cl::BuildError &error) {
        for (auto &log : error.getBuildLog()) std::cerr << log.second << "\n";
        throw;
    }

    std::vector<float> x(4096), y(4096, 1.0f);
    for (std::size_t i = 0; i < x.size(); i++) x[i] = float(i);
    cl::Buffer xs(context, x.begin(), x.end(), true), ys(context, y.begin(), y.end(), false);
    cl::KernelFunctor<cl::Buffer, cl::Buffer, float> saxpy(program, "saxpy");
    saxpy(cl::EnqueueArgs(queue, cl::NDRange(x.size())), xs, ys, 2.0f);
    cl::copy(queue, ys, y.begin(), y.end());
    for (std::size_t i = 0; i < x.size(); i++)
        if (y[i] != 2 * x[i] + 1) throw std::runtime_error("y[" + std::to_string(i) + "] is " + std::to_string(y[i]));
    std::cout << x.size() << " results are right\n";
}

int main(int argc, char **argv) try {
    run(argc > 1 ? argv[1] : "tests/fixtures/bench/saxpy.bc64");
} catch (const std::exception &error) {
    std::cerr << error.what() << "\n";
    return 1;
}
