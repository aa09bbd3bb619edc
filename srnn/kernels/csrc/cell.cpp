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

  CellPlan(const Tensor& x, const Tensor& h, const std::vector<Tensor>& maps, const Optional& permutation, bool gate, bool bias,
           const std::string& activation) {
    const int64_t each = bias ? 2 : 1, count = static_cast<int64_t>(maps.size()) / each, depth = count - 1 - (gate ? 1 : 0);
    require(maps.size() % each == 0 && depth >= 0, "cell: maps must hold f_r's linear maps and the gate");
    const int64_t H = h.size(h.dim() - 1), C = x.size(x.dim() - 1), N = x.numel() / std::max<int64_t>(1, C);
    require(h.numel() == N * H, "cell: x and h must have the same rows");
    held.reserve(maps.size() + 2);
    int64_t width = C;
    for (int64_t i = 0; i < count; ++i) {
      const bool is_gate = gate && i == count - 1;
      const int64_t columns = is_gate ? C : width, rows = maps[i * each].size(0);
      require(has_shape(maps[i * each], {rows, columns}) && (i < depth || rows == H), "cell: a weight does not fit");
      require(!bias || has_shape(maps[i * each + 1], {rows}), "cell: a bias does not fit");
      const void* weight = pointer(maps[i * each], x);
      const Map map{weight, bias ? pointer(maps[i * each + 1], x) : nullptr, rows};
      if (i < depth) hidden.push_back(map), width = rows;
      else (is_gate ? cell.gate : cell.linear) = map;
    }
    if (permutation) {
      source = integers<int64_t>(permutation, H, "permutation", " must hold each of 0 .. " + std::to_string(H - 1) + " once");
      require(static_cast<int64_t>(source.size()) == H, "cell: the permutation does not fit");
      cell.source = source.data();
    }
    cell.N = N;
    cell.C = C;
    cell.H = H;
    cell.depth = depth;
    cell.hidden = hidden.data();
    cell.activation = activation_of(activation);
    cell.x = pointer(x, x);
    cell.h = pointer(h, x);
  }
  const void* pointer(const Tensor& t, const Tensor& like) {
    require(t.scalar_type() == like.scalar_type(), "cell: the tensors must be of one dtype");
    held.push_back(dense(t));
    return data(held.back());
  }
};

void (*cell_kernel(const Tensor& x))(const Cell&) {
  const auto kernel = kernels_for(type_of(x)).cell;
  require(kernel, "cell takes float32 or float64");
  return kernel;
}

Tensor cell(const Tensor& x, const Tensor& h, const std::vector<Tensor>& maps, const Optional& permutation, bool gate,
            bool bias, const std::string& activation) {
  const auto kernel = cell_kernel(x);
  CellPlan plan(x, h, maps, permutation, gate, bias, activation);
  const Tensor out = dense_like(h);
  plan.cell.out = data(out);
  kernel(plan.cell);
  return out;
}

// Gradients of x, h and the maps, in this order; empty where `needs` has 0.
std::vector<Tensor> cell_backward(const Tensor& grad, const Tensor& x, const Tensor& out, const std::vector<Tensor>& maps,
                                  const Optional& permutation, bool gate, bool bias, const std::string& activation,
                                  const std::vector<int64_t>& needs) {
  cell_kernel(x);
  CellPlan plan(x, out, maps, permutation, gate, bias, activation);
  require(needs.size() == maps.size() + 2, "cell_backward: needs must have a number for x, h and each map");
  require(grad.numel() == out.numel() && grad.scalar_type() == x.scalar_type(), "cell_backward: grad must be like out");
  const Tensor g = dense(grad);
  std::vector<Tensor> found;
  const auto made = [&](const Tensor& like, int64_t need) {
    found.push_back(need ? dense_like(like) : empty({0}, x.scalar_type()));
    return need ? data(found.back()) : nullptr;
  };
  CellGradient gradient{};
  gradient.grad = data(g);
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
  plan.cell.out = const_cast<void*>(plan.cell.h);
  kernels_for(type_of(x)).cell_backward(plan.cell, gradient);
  return found;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(srnn, CPU, m) {
  m.impl("cell", TORCH_BOX(&cell));
  m.impl("cell_backward", TORCH_BOX(&cell_backward));
}
