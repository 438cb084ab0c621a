int declared(int a, char* b);
int* pointer(void);
const char& reference();
int (*variable)(int);
int plain = 1, other{2};
extern "C" int alone(void);
extern "C" {
void first(int);
int second(void) { return 1; }
}
operator bool() const;

auto twice = [](int x) { return 2 * x; };

static int outer(int n) {
  int local(int);  // a declaration, most vexing
  struct Local {
    int x;
    int get() { return x; }
  } here;
  auto inner = [&here](int y) -> int { return here.get() + y; };
#define ONCE 1
#pragma omp parallel
  return inner(n) + ONCE;
}

using std::swap;
using namespace std;
static_assert(sizeof(int) == 4, "");
namespace fs = std::filesystem;
