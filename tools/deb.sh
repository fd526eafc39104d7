#!/bin/sh
# Makes a Debian package of installed files: deb.sh ROOT VERSION OUT. ROOT is the DESTDIR of `make install` with PREFIX=/usr.
# The script changes files in ROOT to meet Debian's policy. After `make deb`, `cargo deb -p uzram-cli --no-build` (cargo-deb)
# makes a package of the same files.
set -eu
umask 022
root=$1 version=$(echo "$2" | sed 's/-/~/') out=$3
here=$(cd "$(dirname "$0")/.." && pwd)
arch=$(dpkg --print-architecture)
doc=$root/usr/share/doc/uzram
library=$(cd "$root/usr/lib" && echo libuzram.so.*.*.*)
interface=$(readlink "$root/usr/lib/libuzram.so") interface=${interface#libuzram.so.}

# The package has no debug information. Only the build directory has it, for backtraces.
strip=${STRIP:-strip}
"$strip" --strip-unneeded "$root/usr/bin/uzram" "$root/usr/lib/$library" "$root/usr/lib/uzram/uzram-host"
"$strip" --strip-debug --enable-deterministic-archives "$root/usr/lib/libuzram.a"

# The package needs a C library with all symbols that the programs need. A static host needs no C library.
libc=$(cat "$root/usr/bin/uzram" "$root/usr/lib/$library" "$root/usr/lib/uzram/uzram-host" |
  grep -aoE 'GLIBC_2\.[0-9]+' | sort -u -V | tail -n 1)

# One file has both licences. It refers to Debian's copy of the Apache licence, and has the full text of the MIT licence.
rm -f "$doc"/LICENSE-*
{
  echo 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/'
  echo 'Upstream-Name: uzram'
  echo
  echo 'Files: *'
  echo "Copyright: $(sed -n 's/^Copyright (c) //p' "$here/LICENSE-MIT")"
  echo 'License: MIT or Apache-2.0'
  echo
  echo 'License: MIT'
  sed -e '1,/^Copyright/d' "$here/LICENSE-MIT" | sed -e '1{/^$/d}' -e 's/^$/./' -e 's/^/ /'
  echo
  echo 'License: Apache-2.0'
  echo ' See /usr/share/common-licenses/Apache-2.0.'
} > "$doc/copyright"
{
  echo "uzram ($version) unstable; urgency=medium"
  echo
  echo '  * CHANGELOG.md tells what has changed.'
  echo
  echo " -- uzram contributors <uzram@localhost>  $(date -R -u -r "$here/CHANGELOG.md")"
} | gzip -9n > "$doc/changelog.gz"
chmod 644 "$doc"/*
find "$root/usr/share/man" -type f ! -name '*.gz' -exec gzip -9n {} +

mkdir -p "$root/DEBIAN"
cat > "$root/DEBIAN/control" <<CONTROL
Package: uzram
Version: $version
Architecture: $arch
Maintainer: uzram contributors <uzram@localhost>
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f 1)
Depends: libc6 (>= ${libc#GLIBC_}), libgcc-s1
Recommends: fuse3
Suggests: nbd-client, libnbd-bin, pkg-config
Section: admin
Priority: optional
Description: compressed RAM disk and page store in user space
 zram and zsmalloc as an ordinary process: a RAM disk that holds more than the
 memory it takes, served over NBD or FUSE; programs whose cold memory compresses
 itself; and what compression would give on data of your own. With libuzram, the
 same for programs in C and C++.
CONTROL
echo /etc/uzram.conf > "$root/DEBIAN/conffiles"
echo "libuzram $interface uzram (>= $version)" > "$root/DEBIAN/shlibs"
cp "$here"/packaging/deb/* "$root/DEBIAN"
(cd "$root" && find usr -type f -exec md5sum {} + | LC_ALL=C sort -k 2) > "$root/DEBIAN/md5sums"
chmod 644 "$root"/DEBIAN/*
chmod 755 "$root/DEBIAN" "$root/DEBIAN/postinst" "$root/DEBIAN/postrm"
dpkg-deb -Z"${COMPRESSION:-xz}" --root-owner-group --build "$root" "$out"
