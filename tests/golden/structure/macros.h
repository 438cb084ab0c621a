/* Copyright
 * nobody.
 */

// A file.
#ifndef MACROS_H_
#define MACROS_H_

#include <stddef.h>
#if defined(__cplusplus)
#define BEGIN extern "C" {
#else
#define BEGIN
#endif

#define MAX(a, b) \
  ((a) > (b) ? (a) : (b))

namespace m {

MY_API int exported(int x) NOEXCEPT;

class MY_API Widget {
 public:
  Q_OBJECT
  MY_INLINE int get() const NOEXCEPT { return x_; }
#ifdef OLD
  int old() { return 0; }
#else
  int fresh() { return 1; }
#endif

 private:
  int x_ GUARDED_BY(mutex_);
};

#if 1
inline int one() { return 1; }
#else
inline int two() { return 2; }
#endif

}  // namespace m
#endif  // MACROS_H_
