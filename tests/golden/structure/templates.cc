template <class T, int N = 3>
struct Array {
  T data[N];
  template <class F>
  auto map(F f) const -> decltype(f(data[0])) {
    return f(data[0]);
  }
  template <class U> void assign(const U&);
};

template <>
struct Array<bool> : Base<char> {};

template <class T, int N>
template <class U>
void Array<T, N>::assign(const U& other) {
  data[0] = other;
}

template <class T> T zero();
template <class T> inline constexpr int size_of = sizeof(T);
template <class T> using Pair = Array<T, 2>;
template <class T> class Later;
template class Array<int, 4>;

template <class T>
concept Small = sizeof(T) < 8;

template <Small T>
  requires Small<T>
T half(T value) {
  return value / 2;
}
