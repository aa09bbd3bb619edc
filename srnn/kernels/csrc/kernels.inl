// All kernels for one instruction set; included once per set, inside a namespace of its own.

#include "simd.inl"
#include "rows.inl"
#include "lanes.inl"
#include "cell.inl"

template <class T> Kernels kernels_of() {
  Kernels kernels{forward<T>, backward<T>, table_forward<T>, table_backward<T>, nullptr, nullptr};
  if constexpr (std::is_floating_point_v<T>) kernels.cell = cell<T>, kernels.cell_backward = cell_backward<T>;
  return kernels;
}

Kernels kernels(Type type) {
  switch (type) {
    case Type::f64: return kernels_of<double>();
    case Type::bf16: return kernels_of<bf16>();
    case Type::f16: return kernels_of<f16>();
    default: return kernels_of<float>();
  }
}
