// Makes a process that loads this before all other libraries fork when it asks for its parent's id.
#include <unistd.h>

pid_t getppid(void) { return fork(); }
