/* A module with the name of the library that valgrind loads into each program. */
extern int wherry_valgrind_module;
int wherry_valgrind_module;
