// The library's open files in the program's process. They get numbers that the program does not
// expect to be free or taken, and the program cannot close them: some programs close all numbers.
#pragma once

namespace wherry::run {

// While an OwnFiles exists, files that this process opens get numbers from half of RLIMIT_NOFILE
// on, at most from 512 on. Its destructor notes those files that were opened since and are still
// open as the library's. For one thread; files that other threads open meanwhile get such numbers,
// too.
class OwnFiles {
 public:
  OwnFiles();
  ~OwnFiles();
  OwnFiles(const OwnFiles&) = delete;
  OwnFiles& operator=(const OwnFiles&) = delete;
};

// Opens a file for appending, once, as one of the library's files. Returns its number, or -1.
int open_own_file(const char* path);

// Whether `file` is the number of one of the library's files.
bool is_own_file(int file);
// The lowest number of a library's file that is not below `file`; -1 if there is none.
int next_own_file(int file);
// Called in a forked child, which needs none of these files but that of open_own_file().
void forget_own_files();

}  // namespace wherry::run
