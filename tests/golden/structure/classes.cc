// Copyright nobody.

#include <vector>
#include "shape.h"  // the base
#pragma once

namespace geo {
inline namespace v1 {

class Shape;

/// A shape.
class Polygon final : public Shape, private Counted<Polygon> {
 public:
  // How many corners.
  Polygon() = default;
  explicit Polygon(int corners) : corners_(corners), id{next()} { check(); /* now */ }
  ~Polygon();
  virtual double area() const = 0;
  int corners() const noexcept override { return corners_; }
  bool operator==(const Polygon& other) const { return corners_ == other.corners_; }

  using Point = std::pair<int, int>;
  enum Kind { Regular, Other = 2 };
  struct Edge {
    Point from, to;
    double length() const { return 1; }
  };
  friend bool operator<(const Polygon& a, const Polygon& b) { return a.id < b.id; }
  friend class Reader;
  static constexpr int kMost = 9;

 protected:
  int corners_;
  std::vector<Edge> edges_;
};  // Polygon

Polygon::~Polygon() = default;

double Polygon::area() const try {
  return 0;
} catch (...) {
  return -1;
}

union Bits { int i; float f; };
enum class Color : unsigned char { red, green };
struct { int x; } nameless;

}  // namespace v1
}  // namespace geo
