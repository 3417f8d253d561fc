#!/bin/sh
# Puts Spirula below a prefix, or takes it away: ./install.sh [--remove] [PREFIX]
# Without a prefix: below /usr/local, with the .icd file in /etc/OpenCL/vendors, where every application finds it.
set -eu
remove=
[ "${1:-}" != --remove ] || { remove=1; shift; }
prefix=${1:-/usr/local}
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
cd "$(dirname "$0")"
vendors=$prefix/etc/OpenCL/vendors
[ -n "${1:-}" ] || vendors=/etc/OpenCL/vendors
files=$(find . -type f ! -name install.sh)
if [ -n "$remove" ]; then
    for file in $files; do rm -f "$prefix/$file"; done
    rm -f "$vendors/spirula.icd"
    # The folders that are Spirula's alone.
    for folder in lib/spirula lib/spirula-clang share/doc/spirula share/doc/spirula-clang; do
        [ ! -d "$prefix/$folder" ] || find "$prefix/$folder" -depth -type d -empty -delete
    done
    echo "removed from $prefix"
    exit
fi
for file in $files; do
    mode=644
    [ ! -x "$file" ] || mode=755
    install -D -m "$mode" "$file" "$prefix/$file"
done
mkdir -p "$vendors"
echo "$prefix/lib/libspirula.so" >"$vendors/spirula.icd"
echo "installed $prefix/lib/libspirula.so and $vendors/spirula.icd"
[ -z "${1:-}" ] || echo "applications find it with OCL_ICD_VENDORS=$vendors"
