"""mandelbulber2 (Debian's package): its ray marcher in OpenCL C, one large program for each picture, against the same pictures from its C++."""

import os
import re
import shutil
import tempfile
from pathlib import Path

from client import last_words, output_of, report
from PIL import Image, ImageChops, ImageStat

EXAMPLES = Path("/usr/share/mandelbulber2/examples")
# Pictures that both of its engines draw alike: one computes in float, the other in double, and hits what is small elsewhere.
PICTURES = ["mandelbox_menger", "orbittrap003", "benesi 001", "flight_anim_menger sponge_3"]
# Steps of 255, in the mean.
MOST_APART = 10.0
SIZE = "160x120"


def mandelbulber(folder, arguments):
    """The program without a window, with a home of its own."""
    screen = {"QT_QPA_PLATFORM": "offscreen", "XDG_RUNTIME_DIR": folder, "HOME": folder}
    return output_of(["mandelbulber2", "-n", "-C", *arguments], limit=300, env=dict(os.environ, **screen))


def device(folder):
    """How the program calls the only device."""
    settings = "opencl_enabled=1#opencl_device_type=3"
    _, text = mandelbulber(folder, ["-O", settings, "--help-opencl", "none"])
    found = re.search(r"index: 0 \| hash: (\w+)", text)
    return found.group(1) if found else None


def drawn(folder, picture, name, options):
    """The picture, and whether it was OpenCL that drew it."""
    target = Path(folder) / name
    status, text = mandelbulber(
        folder, ["-f", "png", "-r", SIZE, "-o", str(target), *options, str(EXAMPLES / f"{picture}.fract")]
    )
    image = target.with_suffix(".png")
    if status != 0 or not image.exists():
        raise RuntimeError(last_words(text))
    return Image.open(image).convert("RGB"), "OpenCl - rendering finished" in text


def compare(folder, picture, options):
    """How far both are apart."""
    ours, by_opencl = drawn(folder, picture, "opencl", options)
    other, _ = drawn(folder, picture, "plain", ["-O", "opencl_enabled=0"])
    apart = sum(ImageStat.Stat(ImageChops.difference(ours, other)).mean) / 3
    levels = max(ImageStat.Stat(ours).stddev)
    detail = f"{apart:.2f} of 255 apart in the mean" + ("" if by_opencl else "; it was not OpenCL that drew it")
    report(picture, by_opencl and levels > 1 and apart < MOST_APART, detail)


def main():
    """All pictures, if the program is there."""
    if not shutil.which("mandelbulber2"):
        report("mandelbulber2", False, "it is not installed: apt-get install --no-install-recommends mandelbulber2")
        return
    with tempfile.TemporaryDirectory() as folder:
        name = device(folder)
        if name is None:
            report("mandelbulber2", False, "it finds no device")
            return
        chosen = f"opencl_enabled=1#opencl_device_type=3#opencl_mode=3#opencl_device_list={name}"
        options = ["-O", f"{chosen}#opencl_disable_build_cache=1"]
        for picture in PICTURES:
            try:
                compare(folder, picture, options)
            except RuntimeError as error:
                report(picture, False, str(error))


main()
