# A program of Debian's that compiles its own OpenCL C: hashcat, installed beside the packages by apt-get.
set -eu
set -x
clinfo -l
echo -n 4711 | md5sum | cut -c1-32 >/tmp/hash
hashcat --force --quiet --potfile-disable -D 1 -m 0 -a 3 /tmp/hash '?d?d?d?d' | tee /tmp/found
grep -q ':4711$' /tmp/found
set +x
