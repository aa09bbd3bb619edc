// The operators srnn::gated_scan* for the CPU: the scan of b = (z W^T + c) * sigmoid(x U^T + e).
//
// The two products are computed for a chunk of sequences at a time and stay in cache until the scan has read them. The backward
// pass computes them again. Where it pays off, a product of few columns is computed inside the scan: that of x always, that of
// z in the derivative of the last state, which is 0 for most units of early steps and needs no product there. The bits depend
// on the number of threads only as far as those of torch's matrix products do.

#include "split.h"

namespace {

using namespace srnn;

constexpr int64_t kChunk = 1 << 17;  // elements of b in a chunk

Tensor flat(const Tensor& t) { return torch::stable::view(dense(t), {t.size(0) * t.size(1), t.size(2)}); }
Tensor rows(const Tensor& t, int64_t start, int64_t count) {
  Tensor whole = t;
  return torch::stable::narrow(whole, 0, start, count);
}
Tensor turned(const Tensor& t) { return torch::stable::transpose(t, 0, 1); }

// The tensors of b and the buffers of one chunk of sequences.
struct Drive {
  Tensor z, x, weight;
  Optional bias, gate_weight, gate_bias;
  int64_t N, T, H, chunk, K, C;  // K and C: few columns of z and of x, whose products are made inside the scan, or 0
  Tensor r, q;

  Drive(const Tensor& z_, const Tensor& weight_, const Optional& bias_, const Tensor& x_, const Optional& gate_weight_,
        const Optional& gate_bias_, bool may_skip_r, bool may_skip_q)
      : z(flat(z_)), x(flat(x_)), weight(dense(weight_)), bias(dense(bias_)), gate_weight(dense(gate_weight_)),
        gate_bias(dense(gate_bias_)), N(z_.size(0)), T(z_.size(1)), H(weight_.size(0)),
        // half precision in one piece: partial sums of its gradients would be rounded to half
        chunk(bytes_of(type_of(z_)) == 2 ? N : std::min(N, std::max<int64_t>(4, kChunk / std::max<int64_t>(1, T * H)))),
        K(may_skip_r && z.size(1) <= kFewHidden && type_of(z_) == Type::f32 ? z.size(1) : 0),
        C(may_skip_q && gate_weight && x.size(1) <= kFew && type_of(z_) == Type::f32 ? x.size(1) : 0),
        r(empty({K ? 0 : chunk * T, H}, z_.scalar_type())), q(empty({gate_weight && !C ? chunk * T : 0, H}, z_.scalar_type())) {
  }

  // Computes r and q of `count` sequences from n0 on.
  Gate make(int64_t n0, int64_t count) const {
    if (!K) mm_out(rows(r, 0, count * T), rows(z, n0 * T, count * T), turned(weight));
    if (gate_weight && !C) mm_out(rows(q, 0, count * T), rows(x, n0 * T, count * T), turned(*gate_weight));
    Gate gate{};
    gate.made = gate_weight ? Made::with_gate : Made::without_gate;
    gate.first = n0;
    gate.bias = read(bias);
    gate.gate_bias = read(gate_bias);
    gate.r = data(r);
    gate.q = data(q);
    gate.K = K;
    gate.C = C;
    gate.z = read(z);
    gate.weight = read(weight);
    gate.x = read(x);
    gate.gate_weight = read(gate_weight);
    return gate;
  }
};

// Runs a scan chunk by chunk.
void run_gated(const Drive& drive, Forward f, Type type) {
  const Kernels kernels = kernels_for(type);
  for (int64_t n0 = 0; n0 < f.sequence.N; n0 += drive.chunk) {
    const int64_t count = std::min(drive.chunk, f.sequence.N - n0);
    f.gate = drive.make(n0, count);
    run_forward(kernels, f, n0, n0 + count, type);
  }
}

std::tuple<Tensor, Tensor, Tensor> gated_scan(const Tensor& z, const Tensor& weight, const Optional& bias, const Tensor& x,
                                              const Optional& gate_weight, const Optional& gate_bias, const Tensor& h0_,
                                              const Optional& permutation, const Optional& lengths, const Optional& reset,
                                              bool reverse, const std::string& activation) {
  const Shape shape = check_gated_input(z, weight, bias, x, gate_weight, gate_bias);
  check("h0", h0_, "[N, H]", {shape.N, shape.H}, {z.scalar_type()});
  check_borders(shape, permutation, lengths, reset);
  const Plan plan(shape, 0, std::nullopt, permutation, lengths, reset, reverse);
  const Tensor h0 = dense(h0_);
  const Sequence& s = plan.sequence;
  const StatesOut out(s, h0, activation);
  const bool may_skip_q = is_bounded(out.forward.activation);
  if (s.N && s.T) run_gated(Drive(z, weight, bias, x, gate_weight, gate_bias, false, may_skip_q), out.forward, type_of(z));
  else if (s.N) out.copy_state(h0);
  return out.results();
}

std::tuple<Tensor, Tensor> gated_scan_final(const Tensor& z, const Tensor& weight, const Optional& bias, const Tensor& x,
                                            const Optional& gate_weight, const Optional& gate_bias, const Tensor& h0_,
                                            const Optional& permutation, const Optional& lengths, const Optional& reset,
                                            bool reverse, const std::string& activation) {
  const Shape shape = check_gated_input(z, weight, bias, x, gate_weight, gate_bias);
  check("h0", h0_, "[N, H]", {shape.N, shape.H}, {z.scalar_type()});
  check_borders(shape, permutation, lengths, reset);
  const Plan plan(shape, 0, std::nullopt, permutation, lengths, reset, reverse);
  const Tensor h0 = dense(h0_);
  const LastStateOut out(plan.sequence, h0, activation);
  if (plan.sequence.N) run_gated(Drive(z, weight, bias, x, gate_weight, gate_bias, false, true), out.forward, type_of(z));
  return out.results();
}

// sum += part, `repeat` times in a row, element by element.
void add_to(const Tensor& sum, const Tensor& part, int64_t repeat) {
  const auto add = [&](auto* a, const auto* b) {
    const int64_t count = sum.numel();
    for (int64_t n = 0; n < repeat; ++n, b += count)
      for (int64_t i = 0; i < count; ++i) a[i] += b[i];
  };
  by_type(sum, [&](auto zero) { add(data<decltype(zero)>(sum), read<decltype(zero)>(part)); });
}

// Gradients of one linear map y = v M^T + c, chunk after chunk. The kernel writes dc of each sequence to `bias_rows`, and for
// few columns dM^T to `weight_rows` and dv itself.
struct MapGradient {
  bool need_v, need_m, few, wide;  // wide: dM is summed as [C, H], the faster product when v has few columns
  Tensor dv, weight, part, bias, bias_rows, weight_rows;

  MapGradient(const Tensor& v, int64_t chunk, int64_t H, bool need_v_, bool need_m_, bool few_)
      : need_v(need_v_), need_m(need_m_), few(few_), wide(few || v.size(1) < 16),
        dv(empty({need_v ? v.size(0) : 0, v.size(1)}, v.scalar_type())),
        weight(wide ? empty({v.size(1), H}, v.scalar_type()) : empty({H, v.size(1)}, v.scalar_type())),
        part(torch::stable::empty_like(weight)), bias(empty({H}, state_type(type_of(v)))),
        bias_rows(empty({chunk, H}, state_type(type_of(v)))),
        weight_rows(empty({few ? chunk : 0, v.size(1), H}, state_type(type_of(v)))) {
    torch::stable::zero_(weight);
    torch::stable::zero_(bias);
  }
  // dy [rows, H] and v [rows, C] of `sequences` sequences; v's own gradient goes to the rows from `start` on.
  void add(const Tensor& dy, const Tensor& v, const Tensor& m, int64_t start, int64_t sequences, bool only) {
    if (need_v && !few) mm_out(rows(dv, start, v.size(0)), dy, m);
    if (!need_m) return;
    add_to(bias, bias_rows, sequences);
    if (few) return add_to(weight, weight_rows, sequences);
    const Tensor& to = only ? weight : part;
    wide ? mm_out(to, turned(v), dy) : mm_out(to, turned(dy), v);
    if (!only) add_to(weight, part, 1);
  }
  Tensor weight_gradient() const { return wide ? dense(turned(weight)) : weight; }
};

using Seven = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;
Seven gated_scan_backward(const Optional& grad_, const Tensor& grad_n_, const Tensor& kept_, const Tensor& z,
                          const Tensor& weight, const Optional& bias, const Tensor& x, const Optional& gate_weight,
                          const Optional& gate_bias, const Optional& permutation, const Optional& lengths,
                          const Optional& reset, bool reverse, const std::vector<int64_t>& needs) {
  const Shape shape = check_gated_input(z, weight, bias, x, gate_weight, gate_bias);
  check_gradients(shape, z.scalar_type(), grad_, grad_n_, kept_);
  check_borders(shape, permutation, lengths, reset);
  check_needs(needs, 4);
  const Plan plan(shape, 0, std::nullopt, permutation, lengths, reset, reverse);
  const Tensor grad_n = dense(grad_n_), kept = dense(kept_);
  const Optional grad = unit_stride(grad_);
  const Sequence& s = plan.sequence;
  const Type type = type_of(z);
  const Kernels kernels = kernels_for(type);
  const Tensor dh0 = empty({s.N, s.H}, z.scalar_type());
  Backward f = backward_of(s, grad, grad_n, kept, dh0);
  const Drive drive(z, weight, bias, x, gate_weight, gate_bias, f.kept == Kept::last_zero, !needs[2] && f.kept != Kept::states);
  const auto nothing = [&] { return empty({0}, z.scalar_type()); };
  MapGradient f_map(drive.z, drive.chunk, s.H, needs[0], needs[1], drive.K > 0);
  MapGradient g_map(drive.x, drive.chunk, s.H, needs[2] && gate_weight, needs[3] && gate_weight, drive.C > 0);
  for (int64_t n0 = 0; n0 < s.N; n0 += drive.chunk) {
    const int64_t count = std::min(drive.chunk, s.N - n0), steps = count * s.T;
    f.gate = drive.make(n0, count);
    f.gate.bias_sum = data(f_map.bias_rows);
    f.gate.gate_sum = data(g_map.bias_rows);
    f.gate.weight_sum = data(f_map.weight_rows);
    f.gate.gate_weight_sum = data(g_map.weight_rows);
    f.gate.dz = drive.K && needs[0] ? data(f_map.dv) : nullptr;
    parallel(count, [&](int64_t a, int64_t b) { kernels.backward(f, n0 + a, n0 + b); });
    const bool only = drive.chunk == s.N;
    const Tensor dr = rows(drive.r, 0, drive.K ? 0 : steps);
    const Tensor dq = rows(drive.q, 0, drive.C || !gate_weight ? 0 : steps);
    f_map.add(dr, rows(drive.z, n0 * s.T, steps), drive.weight, n0 * s.T, count, only);
    if (gate_weight) g_map.add(dq, rows(drive.x, n0 * s.T, steps), *gate_weight, n0 * s.T, count, only);
  }
  const auto sized = [&](const Tensor& t, const Tensor& like) {
    return torch::stable::view(t, {like.size(0), like.size(1), like.size(2)});
  };
  const auto typed = [&](const Tensor& t) {
    return t.scalar_type() == z.scalar_type() ? t : torch::stable::to(t, z.scalar_type());
  };
  return {needs[0] ? sized(f_map.dv, z) : nothing(),
          needs[1] ? f_map.weight_gradient() : nothing(),
          needs[1] && bias ? typed(f_map.bias) : nothing(),
          needs[2] && gate_weight ? sized(g_map.dv, x) : nothing(),
          needs[3] && gate_weight ? g_map.weight_gradient() : nothing(),
          needs[3] && gate_bias ? typed(g_map.bias) : nothing(),
          dh0};
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(srnn, CPU, m) {
  m.impl("gated_scan", TORCH_BOX(&gated_scan));
  m.impl("gated_scan_final", TORCH_BOX(&gated_scan_final));
  m.impl("gated_scan_backward", TORCH_BOX(&gated_scan_backward));
}
