// A program that knows nothing of Wherry reads a file with O_DIRECT into large memory.
#include "../support/refused_reads.h"
#include "bounded.h"

int main(void) {
  return read_directly(map(4 * MIB));
}
