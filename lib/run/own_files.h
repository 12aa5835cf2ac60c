// The library's open files in the program's process. They get numbers that the program does not
// expect to be free or taken, and the program cannot close them: some programs close all numbers.
#pragma once

namespace wherry::run {

// While it lives, files that this process opens get numbers from the middle of what is permitted
// on. Its destructor notes those that were opened since and are still open: they are the library's.
// One thread; others that open files meanwhile get such numbers, too.
class OwnFiles {
 public:
  OwnFiles();
  ~OwnFiles();
  OwnFiles(const OwnFiles&) = delete;
  OwnFiles& operator=(const OwnFiles&) = delete;
};

// Opens a file to append to, as one of the library's files, once. Returns its number, or -1.
int open_own_file(const char* path);

// Whether the library has this file open.
bool is_own_file(int file);
// The first of the library's files that has this number or a higher one; -1: there is none.
int next_own_file(int file);
// In a forked child none of them is needed, except the one that open_own_file() has opened.
void forget_own_files();

}  // namespace wherry::run
