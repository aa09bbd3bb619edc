// What the operators srnn::* require of their arguments, as in srnn/kernels/arguments.py. `Plan` checks values.
#pragma once

#include <optional>
#include <vector>

#include "checks.h"
#include "kernels.h"

namespace srnn {

using Optional = std::optional<Tensor>;

struct Shape {
  int64_t N, T, H;
};

inline Activation activation_of(const std::string& name) { return check_named("activation", name, kActivations).activation; }

inline void check_units(const Name& name, int64_t H) {
  if (H == 0) refuse(must(name, "have one unit or more, got H = 0"));
  check_below_limit(name, "H", H);
}

// b [N, T, H], or a table [V, H] to go with ids [N, T].
inline Shape check_scan_input(const Name& name, const Tensor& b, const Optional& ids) {
  if (!ids) check_rank(name, b, "[N, T, H]", 3);
  else if (b.dim() != 2 || ids->dim() != 2)
    refuse(must(name, "be a table [V, H] to go with ids [N, T], got " + text_of(b.sizes()) + " and " + text_of(ids->sizes())));
  check_type(name, b, kFloats);
  const Tensor& rows = ids ? *ids : b;
  const Shape shape{rows.size(0), rows.size(1), b.size(b.dim() - 1)};
  if (ids) check_type("ids", *ids, kSymbols), check_below_limit(name, "V", b.size(0));
  check_below_limit(ids ? "ids" : name, "T", shape.T);
  check_units(name, shape.H);
  return shape;
}

inline void check_borders(const Shape& s, const Optional& permutation, const Optional& lengths, const Optional& reset) {
  if (permutation) check("permutation", *permutation, "[H]", {s.H}, kIndices);
  if (lengths) check("lengths", *lengths, "[N]", {s.N}, kIndices);
  if (reset) check("reset", *reset, "[N, T]", {s.N, s.T}, {ScalarType::Bool});
}

// The gradients of a scan and what its forward pass kept, whose type says what it is.
inline void check_gradients(const Shape& s, ScalarType type, const Optional& grad, const Tensor& grad_n, const Tensor& kept) {
  check("grad_n", grad_n, "[N, H]", {s.N, s.H}, {type});
  const ScalarType kind = kept.scalar_type();
  if (kind == ScalarType::Byte) check_sizes("kept", kept, "[N, T, 8 * ceil(H / 64)]", {s.N, s.T, groups_of(s.H) * 8});
  else if (kind == ScalarType::Int) check_sizes("kept", kept, "[N, H]", {s.N, s.H});
  else check_sizes("kept", kept, "[N, T, H]", {s.N, s.T, s.H});
  check_type("kept", kept, {ScalarType::Byte, ScalarType::Int, type});
  if (!grad) return;
  if (kind == ScalarType::Int) refuse(must("grad", "be None if kept holds last zeros, got shape " + text_of(grad->sizes())));
  check("grad", *grad, "[N, T, H]", {s.N, s.T, s.H}, {type});
}

inline void check_needs(const std::vector<int64_t>& needs, size_t count) {
  if (needs.size() == count) return;
  refuse(must("needs", "hold " + std::to_string(count) + " numbers, got " + std::to_string(needs.size())));
}

// The factors of b = (z W^T + c) * sigmoid(x U^T + e).
inline Shape check_gated_input(const Tensor& z, const Tensor& weight, const Optional& bias, const Tensor& x,
                               const Optional& gate_weight, const Optional& gate_bias) {
  if (z.dim() != 3 || x.dim() != 3 || z.size(0) != x.size(0) || z.size(1) != x.size(1))
    refuse("z [N, T, K] and x [N, T, C] must agree in N and T, got " + text_of(z.sizes()) + " and " + text_of(x.sizes()));
  check_type("z", z, kFloats);
  check_rank("weight", weight, "[H, K]", 2);
  const ScalarType type = z.scalar_type();
  const int64_t K = z.size(2), C = x.size(2), H = weight.size(0);
  check_type("x", x, {type});
  check("weight", weight, "[H, K]", {H, K}, {type});
  if (bias) check("bias", *bias, "[H]", {H}, {type});
  if (gate_weight) check("gate_weight", *gate_weight, "[H, C]", {H, C}, {type});
  if (gate_bias) check("gate_bias", *gate_bias, "[H]", {H}, {type});
  check_below_limit("z", "T", z.size(1));
  check_below_limit("z", "K", K);
  check_below_limit("x", "C", C);
  check_units("weight", H);
  return {z.size(0), z.size(1), H};
}

}  // namespace srnn
