"""ffmpeg's OpenCL filters: each runs, and those that have a CPU filter of the same meaning give its picture, but for
rounding and for the pixels at the edges, which some of them treat otherwise."""

import array
import math
import os
import tempfile

from client import last_words, output_of, report

WIDTH, HEIGHT, FRAMES = 320, 240, 5
SOURCE = f"testsrc2=size={WIDTH}x{HEIGHT}:rate={FRAMES}:duration=1"
OTHER = f"smptebars=size={WIDTH}x{HEIGHT}:rate={FRAMES}:duration=1"
SHARPEN = "0 -1 0 -1 5 -1 0 -1 0:" * 3 + "0 -1 0 -1 5 -1 0 -1 0"
KERNEL = """kernel void turned(write_only image2d_t out, unsigned int index, read_only image2d_t in) {
    const sampler_t s = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;
    int2 at = (int2)(get_global_id(0), get_global_id(1)), size = get_image_dim(out);
    if (at.x < size.x && at.y < size.y) write_imagef(out, at, read_imagef(in, s, size - 1 - at));
}
kernel void drawn(write_only image2d_t out, unsigned int index) {
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    write_imagef(out, at, (float4)(at.x / 320.0f, at.y / 240.0f, 0.25f, 1.0f));
}
"""

# Name, pixel format, OpenCL filter, CPU filter with the same meaning (none: it only has to run), least PSNR in dB.
ONE_INPUT = [
    ("avgblur", "yuv420p", "avgblur_opencl=sizeX=3:sizeY=3", "avgblur=sizeX=3:sizeY=3", 28),
    ("boxblur", "yuv420p", "boxblur_opencl=lr=4:lp=2", "boxblur=lr=4:lp=2", 28),
    ("colorkey", "rgba", "colorkey_opencl=red:0.3:0.1", "colorkey=red:0.3:0.1", 20),
    ("convolution", "yuv420p", f"convolution_opencl={SHARPEN}", f"convolution={SHARPEN}", 28),
    ("deshake", "yuv420p", "deshake_opencl", None, 0),
    ("dilation", "yuv420p", "dilation_opencl", "dilation", 28),
    ("erosion", "yuv420p", "erosion_opencl", "erosion", 28),
    ("nlmeans", "yuv420p", "nlmeans_opencl=s=3:p=3:r=5", "nlmeans=s=3:p=3:r=5", 28),
    ("pad", "yuv420p", "pad_opencl=w=iw+32:h=ih+16:x=16:y=8:color=black", "pad=w=iw+32:h=ih+16:x=16:y=8:color=black", 40),
    ("prewitt", "yuv420p", "prewitt_opencl", "prewitt", 25),
    ("roberts", "yuv420p", "roberts_opencl", "roberts", 20),
    ("sobel", "yuv420p", "sobel_opencl", "sobel", 25),
    ("tonemap", "p010", "tonemap_opencl=tonemap=hable:format=nv12:p=bt709:t=bt709:m=bt709", None, 0),
    ("transpose", "yuv420p", "transpose_opencl=dir=clock", "transpose=dir=clock", 60),
    ("unsharp", "yuv420p", "unsharp_opencl=lx=5:ly=5:la=1.5", "unsharp=lx=5:ly=5:la=1.5", 28),
    ("program", "rgba", "program_opencl=source=KERNELS:kernel=turned", "hflip,vflip", 60),
]
TWO_INPUTS = [
    ("overlay", "yuv420p", "overlay_opencl=x=32:y=16", "overlay=x=32:y=16", 28),
    ("xfade", "yuv420p", "xfade_opencl=transition=wipeleft:duration=0.5:offset=0.2", "xfade=transition=wipeleft:duration=0.5:offset=0.2", 20),
]


def run(arguments, folder, opencl):
    """The pictures' bytes; none, and what was said, if it failed."""
    path = os.path.join(folder, "out.raw")
    device = ["-init_hw_device", "opencl=ocl:0.0", "-filter_hw_device", "ocl"] if opencl else []
    command = ["ffmpeg", "-hide_banner", "-loglevel", "warning", *device, *arguments, "-f", "rawvideo", "-y", path]
    status, text = output_of(command, limit=300)
    if status != 0:
        return None, last_words(text)
    with open(path, "rb") as file:
        return file.read(), ""


def psnr(a, b):
    """Of bytes, in dB."""
    if len(a) != len(b) or not a:
        return 0.0
    square = sum((x - y) ** 2 for x, y in zip(array.array("B", a), array.array("B", b))) / len(a)
    return 99.0 if square == 0 else 10 * math.log10(255**2 / square)


def compare(name, folder, ours, theirs, least):
    found, said = run(ours, folder, True)
    if found is None or not any(found):
        return report(name, False, said or "an empty picture")
    if theirs is None:
        return report(name, True, "runs")
    expected, said = run(theirs, folder, False)
    if expected is None:
        return report(name, False, f"the CPU filter: {said}")
    quality = psnr(found, expected)
    return report(name, quality >= least, f"{quality:.0f} dB to the CPU filter")


def main():
    with tempfile.TemporaryDirectory() as folder:
        kernels = os.path.join(folder, "kernels.cl")
        with open(kernels, "w", encoding="ascii") as file:
            file.write(KERNEL)
        for name, pixels, opencl, cpu, least in ONE_INPUT:
            opencl = opencl.replace("KERNELS", kernels)
            after = "nv12" if name == "tonemap" else pixels
            back = f"hwdownload,format={after}"
            bright = "setparams=color_primaries=bt2020:color_trc=smpte2084:colorspace=bt2020nc," if name == "tonemap" else ""
            ours = ["-f", "lavfi", "-i", SOURCE, "-vf", f"format={pixels},{bright}hwupload,{opencl},{back}"]
            theirs = cpu and ["-f", "lavfi", "-i", SOURCE, "-vf", f"format={pixels},{cpu},format={pixels}"]
            compare(f"{name}_opencl", folder, ours, theirs, least)
        for name, pixels, opencl, cpu, least in TWO_INPUTS:
            inputs = ["-f", "lavfi", "-i", SOURCE, "-f", "lavfi", "-i", OTHER]
            up = f"[0]format={pixels},hwupload[a];[1]format={pixels},hwupload[b];[a][b]{opencl},hwdownload,format={pixels}"
            plain = f"[0]format={pixels}[a];[1]format={pixels}[b];[a][b]{cpu},format={pixels}"
            compare(f"{name}_opencl", folder, inputs + ["-filter_complex", up], inputs + ["-filter_complex", plain], least)
        maps = ["-f", "lavfi", "-i", SOURCE]
        for place in ("X+8", "Y+4"):
            maps += ["-f", "lavfi", "-i", f"nullsrc=size={WIDTH}x{HEIGHT}:rate={FRAMES}:duration=1,format=gray16le,geq='{place}'"]
        up = "[0]format=yuv444p,hwupload[a];[1]hwupload[b];[2]hwupload[c];[a][b][c]remap_opencl=interp=near,hwdownload,format=yuv444p"
        plain = "[0]format=yuv444p[a];[a][1][2]remap,format=yuv444p"
        compare("remap_opencl", folder, maps + ["-filter_complex", up], maps + ["-filter_complex", plain], 25)
        source = f"openclsrc=source={kernels}:kernel=drawn:size={WIDTH}x{HEIGHT}:rate={FRAMES}:format=rgba"
        drawn = ["-filter_complex", f"{source},hwdownload,format=rgba", "-frames:v", str(FRAMES)]
        compare("openclsrc", folder, drawn, None, 0)


main()
