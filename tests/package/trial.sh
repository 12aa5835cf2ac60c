#!/bin/sh
# Installs the packages beside this script, tries what they install, and removes them. Runs as root
# in a system of its own, which chroot_test.py makes.
set -eux
cd "$(dirname "$0")"
packages="libwherry0 libwherry-dev wherry python3-wherry wherry-doc"

apt-get install -y --no-install-recommends ./*.deb

# The tool.
wherry --version
wherry info
wherry cg --poisson 32
as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
as_nobody wherry info

# A C++ program, with either library.
# shellcheck disable=SC2046  # lists of words
g++ -std=c++20 first.cc -o first $(pkg-config --cflags --libs wherry)
./first
as_nobody ./first
# shellcheck disable=SC2046
g++ -std=c++20 first.cc -o contained $(pkg-config --cflags wherry) \
  -Wl,-Bstatic -lwherry -Wl,-Bdynamic $(pkg-config --libs --static wherry | sed 's/-lwherry//')
./contained

# A CUDA source.
wherry nvcc -O1 vector_add.cu -o vector_add
./vector_add | grep ' 0 of '
wherry-nvcc vector_add.cu -o again -lcudart_static
./again | grep ' 0 of '

# A program for CUDA's driver, which finds Wherry in its place.
drop_in=$(pkg-config --variable=libdir wherry)/wherry
gcc driver_client.c -o driver_client -I"$(pkg-config --variable=cudaincludedir wherry)" \
  -L"$drop_in" -lcuda
LD_LIBRARY_PATH=$drop_in ./driver_client

# Python: the package, and a program that does not know Wherry.
python3 arrays.py
wherry run -- python3 -c 'print(len(bytearray(4 << 20)))' >size 2>summary
cat size summary
grep -qx 4194304 size
grep -q ' in ' summary

# Files for programs that are not installed here.
test -s "$(pkg-config --variable=fortran wherry)"
test -s "$(pkg-config --variable=libdir wherry)/cmake/Wherry/WherryConfig.cmake"
test -s /usr/share/wherry/wherry-cuda.cmake
test -s /usr/share/bash-completion/completions/wherry
for page in wherry.1 wherry-nvcc.1 wherryPinPages.3 cuMemAllocManaged.3; do
  zgrep -q '^\.TH' "/usr/share/man/man${page##*.}/$page.gz"
done
test -s /usr/share/doc/wherry-doc/docs/installing.md
test -s /usr/share/doc/wherry-doc/html/index.html

# Removing the packages leaves neither their files nor files that running them has made.
# shellcheck disable=SC2086  # a list of words
dpkg -L $packages | sed -n '/^\/[^.]/p' | sort -u >installed
# shellcheck disable=SC2086
apt-get purge -y $packages
set +x
while read -r path; do
  if [ -e "$path" ] || [ -L "$path" ]; then
    dpkg -S "$path" >/dev/null 2>&1 || echo "$path"
  fi
done <installed >left
find / -xdev -path "$PWD" -prune -o -name '*wherry*' -print >>left
if [ -s left ]; then
  echo "left after the removal:"
  cat left
  exit 1
fi
echo "the trial has passed"
