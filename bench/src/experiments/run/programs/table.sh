# Lines of bash for each program. "#= NAME PROGRAM PACKAGE" begins a program. Its lines before "#-"
# run once, natively, in the folder $made. The other lines are measured. Each run has a new folder.
# $0 is the program's path. The text files $few and $lines have 4 MB and 20 MB. $source is a C++
# file, and $count is a number. The folder $here has the files beside this one.

#= sort sort coreutils
sort -t: -k3 -S 200M $lines

#= shuf shuf coreutils
shuf --random-source=$lines $lines

#= diff diff diffutils
awk 'NR % 7 != 1' $lines | sed '0~50s/e/E/' > $made/changed
#-
diff $lines $made/changed || test $? = 1

#= sed sed sed
sed -n 'H;${x;s/\n/,/g;p}' $lines

#= grep grep grep
awk 'NR % 4 == 0' $lines | cut -d: -f3- > $made/patterns
#-
grep -c -F -f $made/patterns $lines

#= mawk mawk mawk
mawk -f $here/index.awk $few

#= gzip gzip gzip
gzip -n -c $lines | tee out | gzip -d | cksum; cksum out

#= bzip2 bzip2 bzip2
bzip2 -c $few | tee out | bzip2 -d | cksum; cksum out

#= lz4 lz4 lz4
lz4 -q -9 -B7 -c $lines | tee out | lz4 -q -d | cksum; cksum out

#= zstd zstd zstd
zstd -q -10 --single-thread -c $lines | tee out | zstd -q -d | cksum; cksum out

#= xz-threads xz xz-utils
xz -T2 --lzma2=preset=0,dict=1MiB --block-size=5MiB -c $lines > out; xz -dc out | cksum; cksum out

#= tar tar tar
cp $few file; tar --mtime=@0 -I 'zstd -q -9' -cf out file; tar -I zstd -xOf out | cksum; cksum out

#= perl perl perl
perl $here/index.pl $few

#= python3 python3 python3
$0 -s -E $here/index.py $few

#= numpy python3 python3-numpy
$0 -s -E $here/columns.py $count

#= node-index node nodejs
node $here/index.js $few

#= sqlite sqlite3 sqlite3
{
    echo 'create table t(line text); create index i on t(line);'
    printf '.mode ascii\n.separator \001 \\n\n.import %s t\n' $few
    echo 'select line, count(*) as n from t group by line order by n desc, line limit 500;'
} | sqlite3 -batch :memory:

#= redis-index redis-server redis-server
/usr/bin/python3 -s -E $here/server.py $0 $few 7

#= ruby ruby ruby
ruby $here/index.rb $few

#= php php php-cli
php $here/index.php $few

#= luajit luajit luajit
luajit $here/index.lua $few

#= tclsh tclsh tcl
tclsh $here/index.tcl $few

#= sbcl sbcl sbcl
sbcl --noinform --no-userinit --script $here/index.lisp $few

#= R Rscript r-base-core
Rscript --vanilla $here/lines.R $few

#= jq jq jq
jq -nR '[inputs | split(":")[0]] | group_by(.) | map({(.[0]): length}) | add' $few

#= bash bash bash
declare -A count
while IFS=: read -r name number text; do count[k$text]+="$number,"; done < $few
for word in "${!count[@]}"; do echo "$word ${count[$word]}"; done | sort | cksum

#= dash dash dash
dash -c 'text=$(cat "$0"); for at in 1 2 3; do text=$text$text; done; echo "$text" | cksum' $few

#= busybox busybox busybox-static
busybox sort $lines | busybox md5sum

#= bc bc bc
echo 'scale = 900; 4 * a(1); 3^20000 % 7^9000' | bc -l

#= openssl openssl openssl
options='-kdfopt n:65536 -kdfopt r:8 -kdfopt p:1 -kdfopt maxmem_bytes:200000000'
openssl kdf -keylen 32 -kdfopt pass:pass -kdfopt salt:salt $options SCRYPT

#= git git git
export GIT_AUTHOR_DATE='1000000000 +0000' GIT_COMMITTER_DATE='1000000000 +0000'
git init -q . 2> log; git config user.name name; git config user.email mail
for part in 3 2; do awk "NR % $part == 0" $lines > file; git add file; git commit -q -m $part; done
git repack -q -adf --threads=2; git fsck --full 2>&1; git rev-list --objects --all

#= gcc gcc gcc
gcc -O3 -flto -static -o out $here/lists.c; cksum out; ./out $few

#= g++-source g++ g++
g++ -x c++ -std=c++17 -O1 -S -o - $source

#= ld ld binutils
ld -r -o out --whole-archive $(g++ -print-file-name=libstdc++.a) $(gcc -print-file-name=libc.a); cksum out

#= objdump objdump binutils
objdump -d $(gcc -print-file-name=libgcc.a) | cksum

#= cmake cmake cmake
mkdir source; printf 'cmake_minimum_required(VERSION 3.10)\nproject(parts C)\n' > source/CMakeLists.txt
for n in 1 2 3 4; do cp $here/lists.c source/part$n.c; echo "add_executable(part$n part$n.c)" >> source/CMakeLists.txt; done
cmake -S source -B build > log; make -s -C build -j2 > log; build/part4 $few

#= javac javac default-jdk-headless
javac -d . $here/Index.java; cksum *.class

#= java javac default-jdk-headless
javac -d . $here/Index.java
#-
java -Xmx160m -cp $made Index $few

#= go-build go golang-go
go build -o program $here/index.go; cp $here/index.go .
for n in {1..200}; do sed "s/func main/func main$n/" $here/index.go > part$n.go; done
#-
cp -r $GOCACHE cache; export GOCACHE=$PWD/cache; out=$PWD/out; cd $made
go build -trimpath -o $out *.go; cksum < $out

#= go go golang-go
go build -o program $here/index.go
#-
$made/program $lines

#= ghc ghc ghc
ghc -v0 -O -outputdir . -o program $here/Index.hs; ./program $few | cksum

#= haskell ghc ghc
ghc -v0 -O -outputdir . -o program $here/Index.hs
#-
$made/program $few

#= musl musl-gcc musl-tools
musl-gcc -static -O2 -o program $here/lists.c
#-
$made/program $lines

#= asan gcc gcc
gcc -fsanitize=address -O1 -o program $here/lists.c
#-
ASAN_OPTIONS=detect_leaks=0 $made/program $lines

#= valgrind valgrind valgrind
gcc -g -O1 -o program $here/lists.c
#-
valgrind -q --log-file=log $made/program $few; cat log

#= gdb gdb gdb
gcc -g -O0 -o program $here/lists.c
#-
gdb -nx -batch -ex 'break merged' -ex "run $few" -ex 'bt 2' -ex 'info line' -ex kill $made/program | grep -v '^\[\|0x'

#= strace strace strace
strace -f -o trace -e trace=openat sort $lines; grep -c lines trace

#= qemu-img qemu-img qemu-utils
qemu-img convert -f raw -O qcow2 -c $lines out; qemu-img compare -f raw -F qcow2 $lines out

#= mkfs.ext4 mkfs.ext4 e2fsprogs
mkdir dir; cp $lines dir/file; mkfs.ext4 -q -d dir out 256M; debugfs -R 'cat /file' out 2> log | cksum

#= ffmpeg ffmpeg ffmpeg
source='testsrc2=s=1280x720:d=1:r=25'
ffmpeg -v error -f lavfi -i $source -c:v libx264 -threads 2 -preset veryfast -f framemd5 -

#= vim vim vim
vim -Nes -u NONE -i NONE -c '%s/\v<(\w+)>/\1_/g' -c sort -c 'w! out' -c 'q!' $few; cksum out

#= postgres psql postgresql
as=; test $UID != 0 || as='setpriv --reuid 65534 --regid 65534 --clear-groups'
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1); export PGHOST=$PWD
$as $bin/initdb -D data -A trust -N > log
$as $bin/postgres -D data -k $PWD -h '' 2> log2 &
until $bin/pg_isready -q; do kill -0 $!; sleep 0.1; done
$as psql -qAt postgres -c "create table t as select n, md5(n::text) as m from generate_series(1, $count / 10) n" \
    -c 'create index on t(m)' -c 'select count(*), max(a.m), sum(a.n % 97) from t a join t b on a.m = b.m' \
    -c 'select left(m, 2), count(*) from t group by 1 order by 1'
kill -INT $!; wait $!

#= chromium chromium chromium
chromium --headless --no-sandbox --disable-gpu --user-data-dir=$PWD/profile --dump-dom file://$here/page.html 2> log

#= firefox firefox firefox-esr
mkdir profile
firefox --headless --no-remote --profile $PWD/profile --window-size=800,600 --screenshot $PWD/out.png file://$here/page.html 2> log
cksum out.png
