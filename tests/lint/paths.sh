#!/bin/sh
# Nothing in the tree names a folder of one machine: the toolkit is found by --with-cuda, CUDA_HOME or PATH.
set -u
top=${PL_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}
cd "$top" || exit 1
status=0
for word in '/usr/local/''cuda' '["= ]/home''/' '["= ]/root''/'; do
    grep -rIn --exclude-dir=.git --exclude-dir='build*' --exclude-dir=autom4te.cache --exclude=configure --exclude=aclocal.m4 -e "$word" . && status=1
done
exit $status
