// Functions of early_library.c.
#pragma once

// Allocates large memory while it holds the lock that the fork handlers take.
void allocate_with_lock(void);
// The fork handlers of the child give back a lock in large memory.
void put_lock_into_large_memory(void);
// The destructor uses large memory and forks.
void fork_at_end(void);
