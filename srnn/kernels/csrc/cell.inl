// One step of the layer for a few sequences, h' = sigma(P h + b(x)), and its derivative; included once per instruction set.
//
// Every linear map is y = W v + c with W [M, K] stored by rows. A step reads each weight once, which takes most of its time.
// The rows v of all sequences stay in L1. Sums over k use eight lanes, in the same order for any number of sequences.

// y [N, M] = v [N, K] W^T + c, four rows of W at a time.
template <class S> void affine(const S* v, int64_t N, int64_t K, const S* W, const S* c, int64_t M, S* y) {
  typedef typename Wide<S>::vec vec;
  const auto total = [](vec a) {
    S sum{};
    for (int l = 0; l < 8; ++l) sum += a[l];
    return sum;
  };
  const auto dots = [&](auto rows, int64_t m) {
    constexpr int R = decltype(rows)::value;
    for (int64_t n = 0; n < N; ++n) {
      const S* p = v + n * K;
      vec sums[R] = {};
      S tails[R] = {};
      int64_t k = 0;
      for (; k + 8 <= K; k += 8)
        for (int r = 0; r < R; ++r) sums[r] += load(p + k) * load(W + (m + r) * K + k);
      for (; k < K; ++k)
        for (int r = 0; r < R; ++r) tails[r] += p[k] * W[(m + r) * K + k];
      for (int r = 0; r < R; ++r) y[n * M + m + r] = total(sums[r]) + tails[r] + (c ? c[m + r] : S{});
    }
  };
  int64_t m = 0;
  for (; m + 4 <= M; m += 4) dots(std::integral_constant<int, 4>{}, m);
  for (; m < M; ++m) dots(std::integral_constant<int, 1>{}, m);
}

// out [K] += the sum over j of factor[j] times row j of `rows` [count, K]; a factor every `stride` elements.
template <class S> void add_weighted(const S* factor, int64_t stride, int64_t count, const S* rows, int64_t K, S* out) {
  typedef typename Wide<S>::vec vec;
  constexpr int R = 4;
  int64_t k = 0;
  for (; k + 8 * R <= K; k += 8 * R) {
    vec sums[R];
    for (int r = 0; r < R; ++r) sums[r] = load(out + k + 8 * r);
    for (int64_t j = 0; j < count; ++j)
      for (int r = 0; r < R; ++r) sums[r] += factor[j * stride] * load(rows + j * K + k + 8 * r);
    for (int r = 0; r < R; ++r) store(out + k + 8 * r, sums[r]);
  }
  for (; k < K; ++k)
    for (int64_t j = 0; j < count; ++j) out[k] += factor[j * stride] * rows[j * K + k];
}

// Derivatives of y = v W^T + c from dy [N, M]: writes dW and dc, adds to dv; null where not wanted.
template <class S>
void affine_backward(const S* dy, const S* v, int64_t N, int64_t K, const S* W, int64_t M, S* dW, S* dc, S* dv) {
  if (dW) __builtin_memset(dW, 0, M * K * sizeof(S));
  if (dc) __builtin_memset(dc, 0, M * sizeof(S));
  for (int64_t m = 0; dW && m < M; ++m) add_weighted(dy + m, M, N, v, K, dW + m * K);
  for (int64_t n = 0; n < N; ++n) {
    if (dv) add_weighted(dy + n * M, 1, M, W, K, dv + n * K);
    for (int64_t m = 0; dc && m < M; ++m) dc[m] += dy[n * M + m];
  }
}

// The values inside a step: the hidden layers one after the other, then f_r(x) and the value of the gate.
template <class S> struct Inside {
  const Cell& c;
  Scratch<S> memory;
  S *f, *open;
  explicit Inside(const Cell& c_) : c(c_), memory(c_.N * (hidden_units(c_) + 2 * c_.H)) {
    f = memory.memory + c.N * hidden_units(c);
    open = f + c.N * c.H;
    const S* v = static_cast<const S*>(c.x);
    int64_t K = c.C;
    for (int64_t l = 0; l < c.depth; ++l) {
      S* z = hidden(l);
      affine(v, c.N, K, weight(c.hidden[l]), bias(c.hidden[l]), c.hidden[l].rows, z);
      for (int64_t i = 0; i < c.N * c.hidden[l].rows; ++i) z[i] = z[i] <= 0 ? 0 : z[i];  // NaN passes
      v = z;
      K = c.hidden[l].rows;
    }
    affine(v, c.N, K, weight(c.linear), bias(c.linear), c.H, f);
    if (!c.gate.weight) return;
    affine(static_cast<const S*>(c.x), c.N, c.C, weight(c.gate), bias(c.gate), c.H, open);
    const int64_t count = c.N * c.H;
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) store(open + i, sigmoid(load(open + i)));
    if (i < count) {
      S tail[8] = {};
      __builtin_memcpy(tail, open + i, (count - i) * sizeof(S));
      store(tail, sigmoid(load(tail)));
      __builtin_memcpy(open + i, tail, (count - i) * sizeof(S));
    }
  }
  static int64_t hidden_units(const Cell& c) {
    int64_t total = 0;
    for (int64_t l = 0; l < c.depth; ++l) total += c.hidden[l].rows;
    return total;
  }
  S* hidden(int64_t layer) const {
    S* at = memory.memory;
    for (int64_t l = 0; l < layer; ++l) at += c.N * c.hidden[l].rows;
    return at;
  }
  static const S* weight(const Map& map) { return static_cast<const S*>(map.weight); }
  static const S* bias(const Map& map) { return static_cast<const S*>(map.bias); }
};

template <class S> void cell(const Cell& c) {
  const Inside<S> in(c);
  const S* h = static_cast<const S*>(c.h);
  S* out = static_cast<S*>(c.out);
  for (int64_t n = 0; n < c.N; ++n)
    for (int64_t i = 0; i < c.H; ++i) {
      const int64_t at = n * c.H + i, from = n * c.H + (c.source ? c.source[i] : i + 1 == c.H ? 0 : i + 1);
      const S v = h[from] + (c.gate.weight ? in.f[at] * in.open[at] : in.f[at]);
      out[at] = activated(c.activation, v);
    }
}

template <class S> void cell_backward(const Cell& c, const CellGradient& g) {
  const Inside<S> in(c);
  const int64_t N = c.N, H = c.H;
  const S *grad = static_cast<const S*>(g.grad), *out = static_cast<const S*>(g.out);
  Scratch<S> memory(2 * N * H);
  S *df = memory.memory, *dq = df + N * H, *dh = static_cast<S*>(g.dh), *dx = static_cast<S*>(g.dx);
  for (int64_t n = 0; n < N; ++n)
    for (int64_t i = 0; i < H; ++i) {
      const int64_t at = n * H + i, from = n * H + (c.source ? c.source[i] : i + 1 == H ? 0 : i + 1);
      const S d = passed_back(c.activation, grad[at], out[at]);
      if (dh) dh[from] = d;
      df[at] = c.gate.weight ? d * in.open[at] : d;
      if (c.gate.weight) dq[at] = df[at] * in.f[at] * (1 - in.open[at]);
    }
  const auto to = [](void* p) { return static_cast<S*>(p); };
  const S* x = static_cast<const S*>(c.x);
  if (dx) __builtin_memset(dx, 0, N * c.C * sizeof(S));
  if (c.gate.weight) affine_backward(dq, x, N, c.C, in.weight(c.gate), H, to(g.gate.weight), to(g.gate.bias), dx);
  int64_t largest = 1;
  for (int64_t l = 0; l < c.depth; ++l) largest = largest < c.hidden[l].rows ? c.hidden[l].rows : largest;
  Scratch<S> first(N * largest), second(N * largest);
  S *dz = first.memory, *below = second.memory;
  const S* dy = df;
  const Map* map = &c.linear;
  const MapGradientOut* into = &g.linear;
  for (int64_t l = c.depth; l >= 0; --l) {
    const S* v = l ? in.hidden(l - 1) : x;
    const int64_t K = l ? c.hidden[l - 1].rows : c.C;
    if (l) __builtin_memset(dz, 0, N * K * sizeof(S));
    affine_backward(dy, v, N, K, in.weight(*map), map->rows, to(into->weight), to(into->bias), l ? dz : dx);
    if (!l) break;
    for (int64_t i = 0; i < N * K; ++i) dz[i] = v[i] <= 0 ? 0 : dz[i];
    map = &c.hidden[l - 1];
    into = &g.hidden[l - 1];
    dy = dz;
    S* swap = dz;
    dz = below;
    below = swap;
  }
}
