// A step of the heat equation on rows of a plate: in and out have a row above and below, which neighbours send.
__kernel void heat(__global const float *in, __global float *out, int width, float rate)
{
    int x = get_global_id(0);
    size_t at = (get_global_id(1) + 1) * (size_t)width + x;
    float here = in[at];
    float left = x > 0 ? in[at - 1] : here;
    float right = x < width - 1 ? in[at + 1] : here;
    out[at] = here + rate * ((left + right) + (in[at - width] + in[at + width]) - 4.0f * here);
}
