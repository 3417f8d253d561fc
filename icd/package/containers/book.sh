# The commands of the book, as they stand there: in an environment of Python's, where pip finds the packages in a folder.
set -eu
python3 -m venv /environment
. /environment/bin/activate
export PIP_NO_INDEX=1 PIP_FIND_LINKS=/packages PIP_QUIET=1 PIP_DISABLE_PIP_VERSION_CHECK=1
cp /packages/*.deb /packages/*.tar.gz /root
cd /root
sh -eu /packages/commands.sh
