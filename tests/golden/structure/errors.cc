int before() { return 1; }

int broken(int a {
  int ok = 1;
  @ @ ) ) 5 5;
  // still a comment
  return ok;
}

class Half {
  int x;
  void f( {
};

int after() { return 2; }
