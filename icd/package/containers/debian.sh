# dpkg -i: programs find the device through the system's loader. Removing leaves nothing.
set -eu
before=$(find / -xdev -path /packages -prune -o -path /proc -prune -o -path /var -prune -o -print | sort)
set -x
dpkg -i /packages/spirula_*.deb /packages/spirula-clang_*.deb
clinfo -l
spirula info
python3 -m venv /environment
/environment/bin/pip --disable-pip-version-check install --quiet --no-index --find-links /packages pyopencl numpy
/environment/bin/python /usr/share/doc/spirula/examples/saxpy.py
/environment/bin/python /packages/source.py
dpkg --purge spirula spirula-clang
set +x
rm -rf /environment
left=$(find / -xdev -path /packages -prune -o -path /proc -prune -o -path /var -prune -o -print | grep -v __pycache__ | sort |
    { echo "$before"; echo "$before"; cat; } | sort | uniq -u)
[ -z "$left" ] || { echo "dpkg left: $left"; exit 1; }
echo "dpkg has left nothing"
