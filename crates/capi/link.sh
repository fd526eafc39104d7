#!/bin/sh
# Makes libuzram of the archive that cargo built, in DIR: include/uzram.h, lib/libuzram.a, lib/libuzram.so
# and lib/pkgconfig/uzram.pc, which finds the others from where it lies. `make install` writes PREFIX to it.
#
#   link.sh ARCHIVE DIR
#
# rustc passes a version script of its own when it links a cdylib, beside which there can't be one with
# versions; so the shared library is linked here. And of both libraries nothing is seen from outside but
# what uzram.map lists: other names of the archive (lz4's, zstd's) would meet those of the program.
set -eu
archive=$1 dir=$2
here=$(cd "$(dirname "$0")" && pwd)
number() { sed -n "s/^#define UZRAM_VERSION_$1 //p" "$here/include/uzram.h"; }
version=$(number MAJOR).$(number MINOR).$(number PATCH)
# Before 1.0 another minor version is another interface, and so another name for loaders.
interface=$(number MAJOR)
[ "$interface" -gt 0 ] || interface=$interface.$(number MINOR)
lib=$dir/lib

mkdir -p "$lib/pkgconfig" "$dir/include"
cp "$here/include/uzram.h" "$dir/include/"
sed "s|@VERSION@|$version|" "$here/uzram.pc.in" > "$lib/pkgconfig/uzram.pc"

# Both are made of one object. What is renamed would be the program's too: zstd calls functions of these
# names if anyone has them, and a linker keeps one personality of all archives that rustc made.
# Bitcode is rustc's, and of no use to other linkers, which may not even read it.
object=$lib/uzram.o
trap 'rm -f "$object"' EXIT
${LD:-ld} -r -o "$object" --whole-archive "$archive"
renamed=
for name in ZSTD_trace_compress_begin ZSTD_trace_compress_end ZSTD_trace_decompress_begin \
  ZSTD_trace_decompress_end DW.ref.rust_eh_personality; do
  renamed="$renamed --redefine-sym $name=uzram.$name"
done
# shellcheck disable=SC2086 # words
${OBJCOPY:-objcopy} $renamed --wildcard --keep-global-symbol='uzram_*' -R .llvmbc -R .llvmcmd "$object"

# Never unloaded: handlers of forks and of signals stay.
${CC:-cc} -shared -o "$lib/libuzram.so.$version" -Wl,-soname,"libuzram.so.$interface" \
  -Wl,--version-script="$here/uzram.map" -Wl,-z,defs,-z,nodelete,-z,relro,-z,now,--gc-sections \
  "$object" -lgcc_s -lpthread -ldl -lm
ln -sf "libuzram.so.$version" "$lib/libuzram.so.$interface"
ln -sf "libuzram.so.$interface" "$lib/libuzram.so"

rm -f "$lib/libuzram.a"
${AR:-ar} rcs "$lib/libuzram.a" "$object"
