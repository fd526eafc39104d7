#!/bin/sh
# Makes a Debian package of what `make install` installs: deb.sh ROOT VERSION OUT. ROOT is its DESTDIR, with
# PREFIX=/usr. With cargo-deb: `cargo deb -p uzram-cli --no-build` after `make deb` makes the same of the same files.
set -eu
root=$1 version=$2 out=$3
arch=$(dpkg --print-architecture)

# The oldest C library that has all the symbols that the programs ask for.
libc=$(cat "$root/usr/bin/uzram" "$root"/usr/lib/uzram/*.so | grep -aoE 'GLIBC_2\.[0-9]+' | sort -u -V | tail -n 1)

mkdir -p "$root/DEBIAN" "$root/usr/share/doc/uzram"
cat > "$root/DEBIAN/control" <<EOF
Package: uzram
Version: $version
Architecture: $arch
Maintainer: uzram contributors <uzram@localhost>
Installed-Size: $(du -sk "$root" | cut -f 1)
Depends: libc6 (>= ${libc#GLIBC_}), libgcc-s1
Recommends: fuse3
Suggests: nbd-client, libnbd-bin
Section: admin
Priority: optional
Description: compressed RAM disk and page store in user space
 zram and zsmalloc as an ordinary process: a RAM disk that holds more than the
 memory it takes, served over NBD or FUSE; programs whose cold memory compresses
 itself; and what compression would give on data of your own.
EOF
echo /etc/uzram.conf > "$root/DEBIAN/conffiles"
dpkg-deb -Z"${COMPRESSION:-xz}" --root-owner-group --build "$root" "$out"
