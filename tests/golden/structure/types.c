#include "list.h"

typedef unsigned long size;
typedef struct list {
  struct list *next;
  int value;
} list;
typedef int (*compare)(const void *, const void *);
struct node;
struct pair { int a, b; } origin = {0, 0};
enum state { IDLE, BUSY };
static const char *const names[] = {"idle", "busy"};

/* Counts them. */
size
count(const struct list *head)
{
  size n = 0;
  for (; head; head = head->next)
    n++; /* one more */
  return n;
}

struct list *push(struct list *head, int value);
