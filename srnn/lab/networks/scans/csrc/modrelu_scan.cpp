// The operators srnn_lab::modrelu_scan* for the CPU: one matrix product and one pass over the state at each step.
//
//   z_t = x_t + h_{t-1} W,  h_t = modReLU(z_t; b)
//
//   real         modReLU(z) = sign(z) relu(|z| + b); its slope is 1 where h is not 0
//   complex      modReLU(z) = z s, s = relu(r + b) / (r + eps), r = |z|; the slope differs along z and across it
//
// x, states, z and gradients are [T, N, K]: a step is one block. K is H, or 2 H for a complex state: all real parts, then all
// imaginary parts, and W is then [[Re, Im], [-Im, Re]]. Columns are independent in every pass, so its split changes no bit.

#include <algorithm>
#include <cmath>
#include <tuple>

#include "checks.h"

namespace {

using namespace srnn;

constexpr double kEpsilon = 1e-5;     // as in modrelu.py
constexpr int64_t kColumns = 64;      // of a block that one thread works on
constexpr int64_t kSerial = 1 << 15;  // elements of a step below which threads do not pay

Tensor step(const Tensor& t, int64_t k) {  // [N, K] of [T, N, K]
  Tensor whole = t;
  return torch::stable::view(torch::stable::narrow(whole, 0, k, 1), {t.size(1), t.size(2)});
}
template <class F> void for_columns(int64_t N, int64_t H, const F& f) {
  if (N * H < kSerial) return f(0, H);
  torch::stable::parallel_for(0, (H + kColumns - 1) / kColumns, 1,
                              [&](int64_t first, int64_t last) { f(first * kColumns, std::min(H, last * kColumns)); });
}

// z comes in as the product, x is added, h goes out; a complex z stays for the derivative.
template <class S> void activate(S* z, const S* x, const S* b, S* h, int64_t N, int64_t H, bool complex) {
  for_columns(N, H, [&](int64_t i0, int64_t i1) {
    for (int64_t n = 0; n < N; ++n) {
      if (!complex) {
        S *zn = z + n * H, *hn = h + n * H;
        const S* xn = x + n * H;
        for (int64_t i = i0; i < i1; ++i) {
          const S v = zn[i] + xn[i], m = std::abs(v) + b[i];
          hn[i] = m <= 0 || v == 0 ? S(0) : std::copysign(m, v);  // NaN passes
        }
        continue;
      }
      S *re = z + 2 * n * H, *im = re + H, *hr = h + 2 * n * H, *hi = hr + H;
      const S *xr = x + 2 * n * H, *xi = xr + H;
      for (int64_t i = i0; i < i1; ++i) {
        const S p = re[i] + xr[i], q = im[i] + xi[i], r = std::sqrt(p * p + q * q), m = r + b[i];
        const S s = (m <= 0 ? S(0) : m) / (r + S(kEpsilon));
        re[i] = p;
        im[i] = q;
        hr[i] = p * s;
        hi[i] = q * s;
      }
    }
  });
}

// d comes in as the product d_{t+1} W^T, the gradient of the output is added, the gradient by z goes out; db is added to.
template <class S> void derive(S* d, const S* grad, const S* kept, const S* b, S* db, int64_t N, int64_t H, bool complex) {
  for_columns(N, H, [&](int64_t i0, int64_t i1) {
    for (int64_t n = 0; n < N; ++n) {
      if (!complex) {
        S* dn = d + n * H;
        const S *g = grad + n * H, *h = kept + n * H;
        for (int64_t i = i0; i < i1; ++i) {
          const S v = h[i] == 0 ? S(0) : dn[i] + g[i];
          dn[i] = v;
          db[i] += h[i] < 0 ? -v : v;
        }
        continue;
      }
      S *dr = d + 2 * n * H, *di = dr + H;
      const S *gr = grad + 2 * n * H, *gi = gr + H, *re = kept + 2 * n * H, *im = re + H;
      for (int64_t i = i0; i < i1; ++i) {
        const S p = re[i], q = im[i], u = dr[i] + gr[i], v = di[i] + gi[i];
        const S r = std::sqrt(p * p + q * q), m = r + b[i], safe = r + S(kEpsilon), along = p * u + q * v;
        const S s = (m <= 0 ? S(0) : m) / safe, on = m > 0 ? S(1) : S(0);
        const S slope = r > 0 ? along * (on - s) / (safe * r) : S(0);  // s'(r) / r times <z, g>
        dr[i] = u * s + p * slope;
        di[i] = v * s + q * slope;
        db[i] += on * along / safe;
      }
    }
  });
}

// x or a gradient [T, N, K], W [K, K], b [H] with K = H or 2 H, all of one type. modrelu.py checks the same.
void check_maps(const Name& name, const Tensor& x, const Tensor& W, const Tensor& b) {
  check_rank(name, x, "[T, N, K]", 3);
  check_type(name, x, kWideFloats);
  check_rank("b", b, "[H]", 1);
  const int64_t K = x.size(2), H = b.size(0);
  check_below_limit(name, "T", x.size(0));
  check_below_limit(name, "K", K);
  if (K != H && K != 2 * H)
    refuse(must("b", "be [H] with K = " + std::to_string(K) + " equal to H, or 2 H for a complex state, got shape " +
                         text_of(b.sizes())));
  check_type("b", b, {x.scalar_type()});
  check("W", W, "[K, K]", {K, K}, {x.scalar_type()});
}

std::tuple<Tensor, Tensor> modrelu_scan(const Tensor& x_, const Tensor& W_, const Tensor& b_, const Tensor& h0_) {
  check_maps("x", x_, W_, b_);
  check("h0", h0_, "[N, K]", {x_.size(1), x_.size(2)}, {x_.scalar_type()});
  const Tensor x = dense(x_), W = dense(W_), b = dense(b_), h0 = dense(h0_);
  const int64_t T = x.size(0), N = x.size(1), K = x.size(2), H = b.size(0);
  const bool complex = K == 2 * H;
  const Tensor states = torch::stable::empty({T, N, K}, x.scalar_type());
  const Tensor z = torch::stable::empty({complex ? T : 1, N, K}, x.scalar_type());
  by_type(x, [&](auto zero) {
    using S = decltype(zero);
    for (int64_t t = 0; t < T; ++t) {
      const Tensor z_t = step(z, complex ? t : 0);
      mm_out(z_t, t ? step(states, t - 1) : h0, W);
      activate<S>(data<S>(z_t), read<S>(x) + t * N * K, read<S>(b), data<S>(states) + t * N * K, N, H, complex);
    }
  });
  return {states, complex ? z : torch::stable::empty({0}, x.scalar_type())};
}

std::tuple<Tensor, Tensor> modrelu_scan_backward(const Tensor& grad_, const Tensor& kept_, const Tensor& W_, const Tensor& b_) {
  check_maps("grad", grad_, W_, b_);
  check("kept", kept_, "[T, N, K]", {grad_.size(0), grad_.size(1), grad_.size(2)}, {grad_.scalar_type()});
  const Tensor grad = dense(grad_), kept = dense(kept_), W = dense(W_), b = dense(b_);
  const int64_t T = grad.size(0), N = grad.size(1), K = grad.size(2), H = b.size(0);
  const Tensor dz = torch::stable::empty({T, N, K}, grad.scalar_type()), db = torch::stable::empty({H}, grad.scalar_type());
  Tensor across = W;
  across = torch::stable::transpose(across, 0, 1);
  by_type(grad, [&](auto zero) {
    using S = decltype(zero);
    std::fill_n(data<S>(db), H, S(0));
    for (int64_t t = T - 1; t >= 0; --t) {
      S* d = data<S>(dz) + t * N * K;
      if (t == T - 1) std::fill_n(d, N * K, S(0));
      else mm_out(step(dz, t), step(dz, t + 1), across);
      derive<S>(d, read<S>(grad) + t * N * K, read<S>(kept) + t * N * K, read<S>(b), data<S>(db), N, H, K == 2 * H);
    }
  });
  return {dz, db};
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(srnn_lab, CPU, m) {
  m.impl("modrelu_scan", TORCH_BOX(&modrelu_scan));
  m.impl("modrelu_scan_backward", TORCH_BOX(&modrelu_scan_backward));
}
