#!/bin/sh
# Makes libuzram of the archive that cargo built, in DIR: include/uzram.h, lib/libuzram.a, lib/libuzram.so
# and lib/pkgconfig/uzram.pc, which names PREFIX.
#
#   link.sh ARCHIVE DIR [PREFIX]
#
# rustc passes a version script of its own when it links a cdylib, beside which there can't be one with
# versions; so the shared library is linked here. And of both libraries nothing is seen from outside but
# what uzram.map lists: other names of the archive (lz4's, zstd's) would meet those of the program.
set -eu
archive=$1 dir=$2 prefix=${3:-$2}
here=$(cd "$(dirname "$0")" && pwd)
number() { sed -n "s/^#define UZRAM_VERSION_$1 //p" "$here/include/uzram.h"; }
major=$(number MAJOR)
version=$major.$(number MINOR).$(number PATCH)
lib=$dir/lib

mkdir -p "$lib/pkgconfig" "$dir/include"
cp "$here/include/uzram.h" "$dir/include/"
sed "s|@PREFIX@|$prefix|; s|@VERSION@|$version|" "$here/uzram.pc.in" > "$lib/pkgconfig/uzram.pc"

# Whole: handlers of forks are registered by what nothing calls. Never unloaded: they, and those of
# signals, stay.
${CC:-cc} -shared -o "$lib/libuzram.so.$version" -Wl,-soname,"libuzram.so.$major" \
  -Wl,--version-script="$here/uzram.map" -Wl,-z,defs,-z,nodelete,-z,relro,-z,now,--gc-sections \
  -Wl,--whole-archive "$archive" -Wl,--no-whole-archive -lgcc_s -lpthread -ldl -lm
ln -sf "libuzram.so.$version" "$lib/libuzram.so.$major"
ln -sf "libuzram.so.$major" "$lib/libuzram.so"

object=$lib/uzram.o
trap 'rm -f "$object"' EXIT
${LD:-ld} -r -o "$object" --whole-archive "$archive"
# Bitcode is rustc's, and of no use to other linkers, which may not even read it.
${OBJCOPY:-objcopy} --wildcard --keep-global-symbol='uzram_*' -R .llvmbc -R .llvmcmd "$object"
rm -f "$lib/libuzram.a"
${AR:-ar} rcs "$lib/libuzram.a" "$object"
