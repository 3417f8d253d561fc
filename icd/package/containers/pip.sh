# pip install: pyopencl lists the device and runs a SPIR binary, then, with the extra, a source. Uninstalling leaves nothing.
set -eu
python3 -m venv /environment
before=$(cd /environment && find . | sort)
pip() { /environment/bin/pip --disable-pip-version-check "$@"; }
python=/environment/bin/python

set -x
pip install --quiet --no-index --find-links /packages spirula pyopencl numpy
du -sm /environment/lib/libspirula.so /environment/lib/spirula
$python /packages/list.py
$python -m spirula.saxpy
/environment/bin/spirula info
pip install --quiet --no-index --find-links /packages 'spirula[clang]'
du -sm /environment/lib/spirula-clang
$python /packages/source.py
OCL_ICD_FILENAMES=$($python -m spirula)
[ -f "$OCL_ICD_FILENAMES" ]
pip uninstall --quiet --yes spirula spirula-clang
set +x
pip uninstall --quiet --yes $(pip list --format freeze | cut -d= -f1 | grep -vxE 'pip|setuptools|pkg-resources|pkg_resources|wheel')
left=$(cd /environment && find . | grep -v __pycache__ | sort | { echo "$before"; echo "$before"; cat; } | sort | uniq -u)
[ -z "$left" ] || { echo "pip left: $left"; exit 1; }
echo "pip has left nothing"
