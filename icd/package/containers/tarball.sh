# The tarball, below a prefix of its own.
set -eu
set -x
mkdir /unpacked
python3 -c 'import glob, tarfile; tarfile.open(glob.glob("/packages/spirula-*.tar.gz")[0]).extractall("/unpacked")'
/unpacked/spirula-*/install.sh /opt/spirula
OCL_ICD_VENDORS=/opt/spirula/etc/OpenCL/vendors clinfo -l
/unpacked/spirula-*/install.sh --remove /opt/spirula
set +x
left=$(find /opt/spirula -type f)
[ -z "$left" ] || { echo "install.sh left: $left"; exit 1; }
echo "install.sh has left nothing"
