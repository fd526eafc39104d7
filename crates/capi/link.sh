#!/bin/sh
# Builds libuzram in DIR from the archive that cargo built: include/uzram.h, lib/libuzram.a,
# lib/libuzram.so and lib/pkgconfig/uzram.pc. The paths in uzram.pc are relative to its own
# directory. `make install` sets the prefix to PREFIX.
#
#   link.sh ARCHIVE DIR
#
# rustc passes its own version script, without version names, when it links a cdylib. A linker can't
# combine that script with uzram.map, which names versions, so link.sh links the shared library.
# Both libraries export only the names that uzram.map lists, because other names of the archive
# (lz4's, zstd's) could clash with the program's names.
set -eu
archive=$1 dir=$2
here=$(cd "$(dirname "$0")" && pwd)
number() { sed -n "s/^#define UZRAM_VERSION_$1 //p" "$here/include/uzram.h"; }
version=$(number MAJOR).$(number MINOR).$(number PATCH)
# Before 1.0, each minor version can change the interface, so each one has its own soname.
interface=$(number MAJOR)
[ "$interface" -gt 0 ] || interface=$interface.$(number MINOR)
lib=$dir/lib

mkdir -p "$lib/pkgconfig" "$dir/include"
cp "$here/include/uzram.h" "$dir/include/"
sed "s|@VERSION@|$version|" "$here/uzram.pc.in" > "$lib/pkgconfig/uzram.pc"

# Both libraries are made from one object. Some symbols are renamed, because a linker could resolve
# them to symbols of the program. zstd calls the ZSTD_trace functions if any library defines them.
# Of all archives that rustc made, a linker keeps only one reference to a personality routine. The
# bitcode of rustc is removed, because other linkers do not use it, and some can't read it.
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

# The library is never unloaded, because its fork handlers and signal handlers stay registered.
${CC:-cc} -shared -o "$lib/libuzram.so.$version" -Wl,-soname,"libuzram.so.$interface" \
  -Wl,--version-script="$here/uzram.map" -Wl,-z,defs,-z,nodelete,-z,relro,-z,now,--gc-sections \
  "$object" -lgcc_s -lpthread -ldl -lm
ln -sf "libuzram.so.$version" "$lib/libuzram.so.$interface"
ln -sf "libuzram.so.$interface" "$lib/libuzram.so"

rm -f "$lib/libuzram.a"
${AR:-ar} rcs "$lib/libuzram.a" "$object"
