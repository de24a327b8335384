// Gives the host `redis.test` an address for the process that loads this before all other libraries.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                struct addrinfo **found) {
  int (*resolve)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
      dlsym(RTLD_NEXT, "getaddrinfo");
  char address[64] = "";
  if (host && strcmp(host, "redis.test") == 0) {
    FILE *file = fopen(getenv("LOCK_TESTS_HOST"), "r");
    if (!file || !fgets(address, sizeof address, file)) abort();
    fclose(file);
    host = address;
  }
  return resolve(host, service, hints, found);
}
