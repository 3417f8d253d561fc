"""OpenCV's transparent OpenCL (UMat) against the same operations on the CPU (Mat)."""

import os

# OpenCV takes no CPU unless it is asked for.
os.environ["OPENCV_OPENCL_DEVICE"] = ":CPU:"

import cv2  # noqa: E402
import numpy  # noqa: E402

from client import report  # noqa: E402

RANDOM = numpy.random.default_rng(3)
GRAY = RANDOM.integers(0, 256, (240, 320), dtype=numpy.uint8)
COLOUR = RANDOM.integers(0, 256, (240, 320, 3), dtype=numpy.uint8)
SMOOTH = cv2.GaussianBlur(COLOUR, (0, 0), 3)
FLOAT = RANDOM.standard_normal((240, 320)).astype(numpy.float32)
OTHER = RANDOM.standard_normal((240, 320)).astype(numpy.float32)
SQUARE = RANDOM.standard_normal((256, 256)).astype(numpy.float32)
POSITIVE = numpy.abs(FLOAT) + 0.1
CROSS = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))
TURN = cv2.getRotationMatrix2D((160, 120), 30, 1.1)
TILT = numpy.array([[1, 0.1, 5], [0.05, 1, 3], [0.0004, 0.0002, 1]])
ROWS, COLUMNS = numpy.indices((240, 320), dtype=numpy.float32)

# Name, operation, inputs, largest difference allowed.
OPERATIONS = [
    ("add", cv2.add, (GRAY, GRAY), 0),
    ("subtract", cv2.subtract, (GRAY, GRAY[::-1].copy()), 0),
    ("multiply", cv2.multiply, (FLOAT, OTHER), 1e-5),
    ("divide", cv2.divide, (FLOAT, POSITIVE), 1e-4),
    ("absdiff", cv2.absdiff, (COLOUR, COLOUR[::-1].copy()), 0),
    ("addWeighted", lambda a, b: cv2.addWeighted(a, 0.3, b, 0.7, 2), (GRAY, GRAY[::-1].copy()), 1),
    ("min", cv2.min, (FLOAT, OTHER), 0),
    ("max", cv2.max, (FLOAT, OTHER), 0),
    ("bitwise_and", cv2.bitwise_and, (GRAY, GRAY[::-1].copy()), 0),
    ("bitwise_not", cv2.bitwise_not, (GRAY,), 0),
    ("compare", lambda a, b: cv2.compare(a, b, cv2.CMP_GT), (FLOAT, OTHER), 0),
    ("inRange", lambda a: cv2.inRange(a, 50, 150), (GRAY,), 0),
    ("exp", cv2.exp, (FLOAT,), 1e-4),
    ("log", cv2.log, (POSITIVE,), 1e-5),
    ("pow", lambda a: cv2.pow(a, 2.5), (POSITIVE,), 1e-3),
    ("sqrt", cv2.sqrt, (POSITIVE,), 1e-6),
    ("magnitude", cv2.magnitude, (FLOAT, OTHER), 1e-5),
    ("phase", cv2.phase, (FLOAT, OTHER), 2e-2),
    ("cartToPolar", lambda a, b: cv2.cartToPolar(a, b)[0], (FLOAT, OTHER), 1e-5),
    ("convertScaleAbs", lambda a: cv2.convertScaleAbs(a, alpha=1.5, beta=3), (GRAY,), 1),
    ("normalize", lambda a: cv2.normalize(a, None, 0, 1, cv2.NORM_MINMAX), (FLOAT,), 1e-5),
    ("threshold", lambda a: cv2.threshold(a, 100, 255, cv2.THRESH_BINARY)[1], (GRAY,), 0),
    ("adaptiveThreshold", lambda a: cv2.adaptiveThreshold(a, 255, 0, 0, 11, 2), (GRAY,), 0),
    ("BGR to gray", lambda a: cv2.cvtColor(a, cv2.COLOR_BGR2GRAY), (COLOUR,), 1),
    ("BGR to HSV", lambda a: cv2.cvtColor(a, cv2.COLOR_BGR2HSV), (COLOUR,), 1),
    ("BGR to Lab", lambda a: cv2.cvtColor(a, cv2.COLOR_BGR2Lab), (COLOUR,), 2),
    ("BGR to YCrCb", lambda a: cv2.cvtColor(a, cv2.COLOR_BGR2YCrCb), (COLOUR,), 1),
    ("split and merge", lambda a: cv2.merge(cv2.split(a)[::-1]), (COLOUR,), 0),
    ("flip", lambda a: cv2.flip(a, 1), (COLOUR,), 0),
    ("transpose", cv2.transpose, (FLOAT,), 0),
    ("rotate", lambda a: cv2.rotate(a, cv2.ROTATE_90_CLOCKWISE), (COLOUR,), 0),
    ("repeat", lambda a: cv2.repeat(a, 2, 3), (GRAY,), 0),
    ("copyMakeBorder", lambda a: cv2.copyMakeBorder(a, 5, 6, 7, 8, cv2.BORDER_REFLECT_101), (COLOUR,), 0),
    ("LUT", lambda a: cv2.LUT(a, numpy.arange(255, -1, -1, dtype=numpy.uint8)), (GRAY,), 0),
    ("blur", lambda a: cv2.blur(a, (5, 7)), (COLOUR,), 1),
    ("boxFilter", lambda a: cv2.boxFilter(a, cv2.CV_32F, (3, 3)), (FLOAT,), 1e-4),
    ("GaussianBlur", lambda a: cv2.GaussianBlur(a, (7, 7), 1.5), (FLOAT,), 1e-4),
    ("medianBlur", lambda a: cv2.medianBlur(a, 3), (GRAY,), 0),
    ("bilateralFilter", lambda a: cv2.bilateralFilter(a, 5, 50, 50), (GRAY,), 1),
    ("filter2D", lambda a: cv2.filter2D(a, cv2.CV_32F, numpy.ones((5, 3), numpy.float32) / 7), (FLOAT,), 1e-4),
    ("sepFilter2D", lambda a: cv2.sepFilter2D(a, cv2.CV_32F, numpy.array([1, 2, 1.0]), numpy.array([1, 0, -1.0])), (FLOAT,), 1e-4),
    ("Sobel", lambda a: cv2.Sobel(a, cv2.CV_32F, 1, 0), (GRAY,), 1e-3),
    ("Scharr", lambda a: cv2.Scharr(a, cv2.CV_32F, 0, 1), (GRAY,), 1e-3),
    ("Laplacian", lambda a: cv2.Laplacian(a, cv2.CV_32F, ksize=3), (GRAY,), 1e-3),
    ("Canny", lambda a: cv2.Canny(a, 50, 150), (cv2.cvtColor(SMOOTH, cv2.COLOR_BGR2GRAY),), 0),
    ("erode", lambda a: cv2.erode(a, CROSS, iterations=2), (GRAY,), 0),
    ("dilate", lambda a: cv2.dilate(a, CROSS), (GRAY,), 0),
    ("morphology gradient", lambda a: cv2.morphologyEx(a, cv2.MORPH_GRADIENT, CROSS), (GRAY,), 0),
    ("cornerHarris", lambda a: cv2.cornerHarris(a, 2, 3, 0.04), (FLOAT,), 1e-2),
    ("resize, linear", lambda a: cv2.resize(a, (500, 177), interpolation=cv2.INTER_LINEAR), (SMOOTH,), 2),
    ("resize, nearest", lambda a: cv2.resize(a, (500, 177), interpolation=cv2.INTER_NEAREST), (COLOUR,), 0),
    ("resize, area", lambda a: cv2.resize(a, (160, 120), interpolation=cv2.INTER_AREA), (COLOUR,), 1),
    ("resize, cubic", lambda a: cv2.resize(a, (500, 177), interpolation=cv2.INTER_CUBIC), (FLOAT,), 1e-2),
    ("warpAffine", lambda a: cv2.warpAffine(a, TURN, (320, 240)), (SMOOTH,), 3),
    ("warpPerspective", lambda a: cv2.warpPerspective(a, TILT, (320, 240)), (SMOOTH,), 3),
    ("remap", lambda a: cv2.remap(a, COLUMNS * 0.9 + 3.3, ROWS * 0.8 + 5.7, cv2.INTER_LINEAR), (SMOOTH,), 3),
    ("pyrDown", cv2.pyrDown, (COLOUR,), 1),
    ("pyrUp", cv2.pyrUp, (COLOUR,), 1),
    ("integral", lambda a: cv2.integral(a), (GRAY,), 0),
    ("reduce", lambda a: cv2.reduce(a, 0, cv2.REDUCE_SUM), (FLOAT,), 1e-2),
    ("gemm", lambda a, b: cv2.gemm(a, b, 0.5, None, 0), (SQUARE, SQUARE.T.copy()), 1e-3),
    ("dft", lambda a: cv2.dft(a, flags=cv2.DFT_COMPLEX_OUTPUT), (SQUARE,), 1e-2),
    ("mulSpectrums", lambda a, b: cv2.mulSpectrums(*(cv2.dft(one, flags=cv2.DFT_COMPLEX_OUTPUT) for one in (a, b)), 0), (SQUARE, SQUARE.T.copy()), 3e-1),
    ("calcHist", lambda a: cv2.calcHist([a], [0], None, [256], [0, 256]), (GRAY,), 0),
    ("equalizeHist", cv2.equalizeHist, (GRAY,), 1),
    ("CLAHE", lambda a: cv2.createCLAHE(2.0, (8, 8)).apply(a), (GRAY,), 1),
    ("matchTemplate", lambda a: cv2.matchTemplate(a, GRAY[50:70, 60:90].copy(), cv2.TM_CCOEFF_NORMED), (GRAY,), 1e-3),
    ("sum", cv2.sumElems, (FLOAT,), 1e-2),
    ("mean and deviation", cv2.meanStdDev, (FLOAT,), 1e-4),
    ("minMaxLoc", lambda a: cv2.minMaxLoc(a)[:2], (FLOAT,), 1e-6),
    ("norm", lambda a: cv2.norm(a, cv2.NORM_L2), (FLOAT,), 1e-2),
    ("countNonZero", cv2.countNonZero, (GRAY,), 0),
]


def plain(result):
    """As an array: of an image on the device, of numbers, or of several of them."""
    if isinstance(result, (list, tuple)):
        return numpy.concatenate([plain(one).ravel() for one in result])
    return result.get() if isinstance(result, cv2.UMat) else numpy.atleast_1d(numpy.asarray(result))


def main():
    device = cv2.ocl.Device.getDefault()
    if not cv2.ocl.haveOpenCL() or not device.available():
        return report("a device", False, "OpenCV finds none")
    report("a device", True, device.name())
    for name, operation, inputs, limit in OPERATIONS:
        cv2.ocl.setUseOpenCL(False)
        expected = plain(operation(*inputs)).astype(numpy.float64)
        cv2.ocl.setUseOpenCL(True)
        try:
            found = plain(operation(*(cv2.UMat(one) for one in inputs))).astype(numpy.float64)
        except cv2.error as error:
            report(name, False, str(error)[:300])
            continue
        if found.size != expected.size:
            report(name, False, f"{found.shape} instead of {expected.shape}")
            continue
        # A tenth of a per cent of the pixels may be on the other side of a decision.
        differences = numpy.abs(found.ravel() - expected.ravel())
        beyond = int((differences > limit).sum())
        report(name, beyond <= differences.size // 1000, f"largest difference {differences.max():.1e}, {beyond} beyond {limit}")
    return None


main()
