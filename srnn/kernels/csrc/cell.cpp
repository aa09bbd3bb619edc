// The operators srnn::cell and srnn::cell_backward for the CPU: one step of the layer for a few sequences.

#include "plan.h"

namespace {

using namespace srnn;
using srnn::Map;

// Contiguous, unlike torch::stable::empty_like.
Tensor dense_like(const Tensor& t) { return empty(t.sizes(), t.scalar_type()); }

// The linear maps of f_r in order, then the gate: `maps` holds a weight and, with `bias`, a bias for each.
struct CellPlan {
  std::vector<Tensor> held;  // dense forms of the tensors below
  std::vector<Map> hidden;
  std::vector<int64_t> source;
  Cell cell{};

  CellPlan(const Tensor& x, const Name& name, const Tensor& h, const std::vector<Tensor>& maps, const Optional& permutation,
           bool gate, bool bias, const std::string& activation) {
    check_type("x", x, kWideFloats);
    const ScalarType type = x.scalar_type();
    check_type(name, h, {type});
    if (x.dim() == 0) refuse(must("x", "be [..., C], got shape ()"));
    if (h.dim() == 0) refuse(must(name, "be [..., H], got shape ()"));
    const int64_t N = rows_of(x), C = x.size(x.dim() - 1), H = h.size(h.dim() - 1);
    check_below_limit("x", "C", C);
    check_below_limit(name, "H", H);
    if (rows_of(h) != N)
      refuse(must(name, "have as many rows as x, " + std::to_string(N) + ", got shape " + text_of(h.sizes())));
    const int64_t each = bias ? 2 : 1, count = static_cast<int64_t>(maps.size()) / each, depth = count - 1 - (gate ? 1 : 0);
    if (maps.size() % each != 0 || depth < 0)
      refuse(must("maps", "hold f_r's linear maps and the gate's, " + std::to_string(each) + " tensors each, got " +
                              std::to_string(maps.size()) + " tensors"));
    held.reserve(maps.size() + 2);
    int64_t width = C;
    for (int64_t i = 0; i < count; ++i) {
      const bool is_gate = gate && i == count - 1;
      const Name label("maps", i * each), bias_label("maps", i * each + 1);
      check_rank(label, maps[i * each], "[rows, columns]", 2);
      const int64_t columns = is_gate ? C : width, rows = i < depth ? maps[i * each].size(0) : H;
      check(label, maps[i * each], "[rows, columns]", {rows, columns}, {type});
      check_below_limit(label, "rows", rows);
      if (bias) check(bias_label, maps[i * each + 1], "[rows]", {rows}, {type});
      const void* weight = pointer(maps[i * each]);
      const Map map{weight, bias ? pointer(maps[i * each + 1]) : nullptr, rows};
      if (i < depth) hidden.push_back(map), width = rows;
      else (is_gate ? cell.gate : cell.linear) = map;
    }
    if (permutation) {
      check("permutation", *permutation, "[H]", {H}, kIndices);
      const Order order(permutation, H);
      source.assign(order.source.begin(), order.source.end());
      cell.source = source.data();
    }
    cell.N = N;
    cell.C = C;
    cell.H = H;
    cell.depth = depth;
    cell.hidden = hidden.data();
    cell.activation = activation_of(activation);
    cell.x = pointer(x);
    cell.h = pointer(h);
  }
  static int64_t rows_of(const Tensor& t) {
    int64_t rows = 1;
    for (int64_t i = 0; i + 1 < t.dim(); ++i) rows *= t.size(i);
    return rows;
  }
  const void* pointer(const Tensor& t) {
    held.push_back(dense(t));
    return read(held.back());
  }
};

Tensor cell(const Tensor& x, const Tensor& h, const std::vector<Tensor>& maps, const Optional& permutation, bool gate,
            bool bias, const std::string& activation) {
  CellPlan plan(x, "h", h, maps, permutation, gate, bias, activation);
  const Tensor out = dense_like(h);
  plan.cell.out = data(out);
  kernels_for(type_of(x)).cell(plan.cell);
  return out;
}

// Gradients of x, h and the maps, in this order; empty where `needs` has 0.
std::vector<Tensor> cell_backward(const Tensor& grad, const Tensor& x, const Tensor& out, const std::vector<Tensor>& maps,
                                  const Optional& permutation, bool gate, bool bias, const std::string& activation,
                                  const std::vector<int64_t>& needs) {
  CellPlan plan(x, "out", out, maps, permutation, gate, bias, activation);
  check_type("grad", grad, {x.scalar_type()});
  if (!(grad.sizes() == out.sizes()))
    refuse(must("grad", "be [..., H] = " + text_of(out.sizes()) + ", got " + text_of(grad.sizes())));
  check_needs(needs, maps.size() + 2);
  const Tensor g = dense(grad);
  std::vector<Tensor> found;
  const auto made = [&](const Tensor& like, int64_t need) {
    found.push_back(need ? dense_like(like) : empty({0}, x.scalar_type()));
    return need ? data(found.back()) : nullptr;
  };
  CellGradient gradient{};
  gradient.grad = read(g);
  gradient.out = plan.cell.h;
  gradient.dx = made(x, needs[0]);
  gradient.dh = made(out, needs[1]);
  std::vector<MapGradientOut> each;
  for (size_t i = 0, step = bias ? 2 : 1; i < maps.size(); i += step) {
    void* weight = made(maps[i], needs[i + 2]);
    each.push_back({weight, bias ? made(maps[i + 1], needs[i + 3]) : nullptr});
  }
  if (gate) gradient.gate = each.back(), each.pop_back();
  gradient.linear = each.back();
  gradient.hidden = each.data();
  kernels_for(type_of(x)).cell_backward(plan.cell, gradient);
  return found;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(srnn, CPU, m) {
  m.impl("cell", TORCH_BOX(&cell));
  m.impl("cell_backward", TORCH_BOX(&cell_backward));
}
