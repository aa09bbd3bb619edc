// The operators srnn_lab::linear_scan* for the CPU: no unit sees another. The derivative is the same recurrence backwards in
// time.
//
//   h_t = sigma(a_t h_{t-1} + b_t)              sigma: identity or ReLU; complex: identity
//   d_t = sigma'_t (g_t + conj(a_{t+1}) d_{t+1})
//
// b, states and gradients are [N, T, K], units contiguous; a is [K], the same at every step, or [N, T, K]. K is H, or 2 H for
// a complex state: all real parts, then all imaginary parts. Sequences are independent: any split gives the same bits.

#include <algorithm>
#include <string>
#include <tuple>

#include "checks.h"

namespace {

using namespace srnn;

enum class Kind { identity, relu, complex };

constexpr struct {
  const char* name;
  Kind kind;
} kKinds[] = {{"identity", Kind::identity}, {"relu", Kind::relu}, {"complex", Kind::complex}};

// b or its gradient [N, T, K], a [K] or [N, T, K], h0 [N, K], all of one type. linear.py checks the same.
Kind check_arguments(const Name& name, const Tensor& b, const Tensor& a, const Tensor& h0, const std::string& kind_name) {
  const Kind kind = check_named("kind", kind_name, kKinds).kind;
  check_rank(name, b, "[N, T, K]", 3);
  check_type(name, b, kWideFloats);
  const int64_t N = b.size(0), T = b.size(1), K = b.size(2);
  check_below_limit(name, "T", T);
  check_below_limit(name, "K", K);
  if (kind == Kind::complex && K % 2)
    refuse(must(name, "have an even K, real and imaginary parts, got K = " + std::to_string(K)));
  if (a.dim() == 3 && kind != Kind::complex) check("a", a, "[N, T, K]", {N, T, K}, {b.scalar_type()});
  else check("a", a, "[K]", {K}, {b.scalar_type()});
  check("h0", h0, "[N, K]", {N, K}, {b.scalar_type()});
  return kind;
}

template <class S> struct Scan {
  int64_t T, K;
  bool varies;  // a is [N, T, K]
  const S *a, *b, *h0;
  const S* states;  // the results of the forward pass, which writes them to `out`
  S* out;
  const S* grad;
  S *db, *da, *dh0;  // da: [N, T, K], or sums over time [N, K]

  const S* a_at(int64_t n, int64_t t) const { return varies ? a + (n * T + t) * K : a; }
  const S* before(int64_t n, int64_t t) const { return t ? states + (n * T + t - 1) * K : h0 + n * K; }

  template <bool relu> void forward(int64_t n) const {
    for (int64_t t = 0; t < T; ++t) {
      const S *at = a_at(n, t), *bt = b + (n * T + t) * K, *h = before(n, t);
      S* now = out + (n * T + t) * K;
      for (int64_t i = 0; i < K; ++i) {
        const S v = at[i] * h[i] + bt[i];
        now[i] = relu && v <= 0 ? S(0) : v;  // NaN passes
      }
    }
  }

  template <bool relu> void backward(int64_t n) const {
    S* carry = dh0 + n * K;
    std::fill_n(carry, K, S(0));
    if (!varies) std::fill_n(da + n * K, K, S(0));
    for (int64_t t = T - 1; t >= 0; --t) {
      const int64_t row = (n * T + t) * K;
      const S *at = a_at(n, t), *g = grad + row, *h = before(n, t), *now = states + row;
      S *d = db + row, *sum = varies ? da + row : da + n * K;
      for (int64_t i = 0; i < K; ++i) {
        const S v = relu && now[i] == 0 ? S(0) : g[i] + carry[i];
        d[i] = v;
        sum[i] = varies ? v * h[i] : sum[i] + v * h[i];
        carry[i] = v * at[i];
      }
    }
  }

  void forward_complex(int64_t n) const {
    const int64_t H = K / 2;
    const S *re = a, *im = a + H;
    for (int64_t t = 0; t < T; ++t) {
      const S *bt = b + (n * T + t) * K, *h = before(n, t);
      S* now = out + (n * T + t) * K;
      for (int64_t i = 0; i < H; ++i) {
        const S x = h[i], y = h[H + i];
        now[i] = re[i] * x - im[i] * y + bt[i];
        now[H + i] = re[i] * y + im[i] * x + bt[H + i];
      }
    }
  }

  void backward_complex(int64_t n) const {
    const int64_t H = K / 2;
    const S *re = a, *im = a + H;
    S *carry = dh0 + n * K, *sum = da + n * K;
    std::fill_n(carry, K, S(0));
    std::fill_n(sum, K, S(0));
    for (int64_t t = T - 1; t >= 0; --t) {
      const int64_t row = (n * T + t) * K;
      const S *g = grad + row, *h = before(n, t);
      S* d = db + row;
      for (int64_t i = 0; i < H; ++i) {
        const S p = g[i] + carry[i], q = g[H + i] + carry[H + i], x = h[i], y = h[H + i];
        d[i] = p;
        d[H + i] = q;
        sum[i] += p * x + q * y;  // d times the conjugate of the state before
        sum[H + i] += q * x - p * y;
        carry[i] = re[i] * p + im[i] * q;
        carry[H + i] = re[i] * q - im[i] * p;
      }
    }
  }
};

template <class F> void for_each_sequence(int64_t N, const F& f) {
  torch::stable::parallel_for(0, N, 1, [&](int64_t n0, int64_t n1) {
    for (int64_t n = n0; n < n1; ++n) f(n);
  });
}

template <class S> void run_forward(const Scan<S>& s, int64_t N, Kind kind) {
  for_each_sequence(N, [&](int64_t n) {
    if (kind == Kind::complex) s.forward_complex(n);
    else if (kind == Kind::relu) s.template forward<true>(n);
    else s.template forward<false>(n);
  });
}

template <class S> void run_backward(const Scan<S>& s, int64_t N, Kind kind) {
  for_each_sequence(N, [&](int64_t n) {
    if (kind == Kind::complex) s.backward_complex(n);
    else if (kind == Kind::relu) s.template backward<true>(n);
    else s.template backward<false>(n);
  });
}

Tensor linear_scan(const Tensor& b_, const Tensor& a_, const Tensor& h0_, const std::string& kind_name) {
  const Kind kind = check_arguments("b", b_, a_, h0_, kind_name);
  const Tensor b = dense(b_), a = dense(a_), h0 = dense(h0_);
  const Tensor states = torch::stable::empty({b.size(0), b.size(1), b.size(2)}, b.scalar_type());
  by_type(b, [&](auto zero) {
    using S = decltype(zero);
    Scan<S> s{};
    s.T = b.size(1), s.K = b.size(2), s.varies = a.dim() == 3;
    s.a = read<S>(a), s.b = read<S>(b), s.h0 = read<S>(h0), s.states = s.out = data<S>(states);
    run_forward(s, b.size(0), kind);
  });
  return states;
}

std::tuple<Tensor, Tensor, Tensor> linear_scan_backward(const Tensor& grad_, const Tensor& states_, const Tensor& a_,
                                                        const Tensor& h0_, const std::string& kind_name) {
  const Kind kind = check_arguments("grad", grad_, a_, h0_, kind_name);
  check("states", states_, "[N, T, K]", {grad_.size(0), grad_.size(1), grad_.size(2)}, {grad_.scalar_type()});
  const Tensor grad = dense(grad_), states = dense(states_), a = dense(a_), h0 = dense(h0_);
  const int64_t N = grad.size(0), T = grad.size(1), K = grad.size(2);
  const bool varies = a.dim() == 3;
  const Tensor db = torch::stable::empty({N, T, K}, grad.scalar_type()), dh0 = torch::stable::empty({N, K}, grad.scalar_type());
  const Tensor da =
      varies ? torch::stable::empty({N, T, K}, grad.scalar_type()) : torch::stable::empty({N, K}, grad.scalar_type());
  by_type(grad, [&](auto zero) {
    using S = decltype(zero);
    Scan<S> s{};
    s.T = T, s.K = K, s.varies = varies;
    s.a = read<S>(a), s.h0 = read<S>(h0), s.states = read<S>(states), s.grad = read<S>(grad);
    s.db = data<S>(db), s.da = data<S>(da), s.dh0 = data<S>(dh0);
    run_backward(s, N, kind);
  });
  return {db, da, dh0};
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(srnn_lab, CPU, m) {
  m.impl("linear_scan", TORCH_BOX(&linear_scan));
  m.impl("linear_scan_backward", TORCH_BOX(&linear_scan_backward));
}
