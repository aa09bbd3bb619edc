// What the kernels are given and which there are; no torch types, no templates. shuffle_scan.inl has the kernels themselves.
//
//   h_t = sigma(P h_{t-1} + b_t)            (P h)_i = h_{p[i]}
//   d_t = sigma'_t (g_t + P^T d_{t+1})
//
// A tensor [N, T, H] is given by its first element and its strides in n and t, in elements; units lie side by side.
// A step k counts in the order of the recurrence, 1 to a row's length; reversed rows run through t from their end to 0.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace srnn {

// How a unit finds its predecessor: at the next place (shift), at its own (identity), or by an index.
enum class Link { shift, identity, gather };

// sigma: max(0, v), tanh(v), or v kept in [-1, 1]. The derivative of relu and clip is 0 or 1, and 0 at the bounds.
enum class Activation { relu, tanh, clip };

struct Sequence {
  int64_t N, T, H;
  const int64_t* lengths;  // [N] or null: all T
  const bool* reset;       // [N, T] or null: no state crosses the border between t - 1 and t where it is true
  bool reverse;
  Link link;
  const int32_t* source;       // [H] p, when link is gather
  const int32_t* destination;  // [H] the inverse of p
};

// Whether the state is cleared before step k of sequence n. The first step of a reversed row crosses no border.
inline bool is_cut(const Sequence& s, int64_t n, int64_t length, int64_t k) {
  if (!s.reset || (s.reverse && k == 1)) return false;
  return s.reset[n * s.T + (s.reverse ? length - k + 1 : k - 1)];
}

// Where row t of sequence n is read: b itself, or a table [V, H] by ids [N, T].
struct Input {
  const void* base;
  int64_t stride_n, stride_t;
  const int32_t* ids;  // null: dense
};

// b = (r + c) * sigmoid(q + e), made of two products r and q that are already there; the derivative overwrites them. With few
// inputs q = x U^T costs less to make in place than to store and load.
enum class Made { no, without_gate, by_products, with_few_inputs };
constexpr int64_t kFew = 4;
struct Gate {
  Made made;                     // no: b is read from memory
  const void *bias, *gate_bias;  // [H] or null
  void *r, *q;                   // [N, T, H]
  const void *x, *gate_weight;   // few inputs: [N, T, C] and [H, C]
  int64_t C;
  void *bias_sum, *gate_sum;     // derivative: [N, H] in the state's type, sums over time
  void* weight_sum;              // few inputs: [N, C, H]
};

struct Forward {
  Sequence sequence;
  Input input;
  Gate gate;
  Activation activation;
  const void* h0;   // [N, H]
  void* output;     // [N, T, H], null: only the last state
  uint8_t* bits;    // [N, T, groups of 64 units], null for tanh or last state
  void* h_n;        // [N, H]
  int32_t* last_zero;  // [N, H], with the last state only: the last step whose derivative is 0, or k - 1 for a cut at step k
};

// What the forward pass left for the derivative: a bit per unit and step, the states of tanh, or the last step at which a unit's
// derivative was 0.
enum class Kept { bits, states, last_zero };

struct Backward {
  Sequence sequence;
  const void* grad;  // [N, T, H] or null
  int64_t grad_stride_n, grad_stride_t;
  const void* grad_n;  // [N, H]
  Kept kept;
  const uint8_t* bits;
  const void* states;
  const int32_t* last_zero;
  void* db;            // [N, T, H], or null
  void* table;         // [V, stride] in the state's type, added to, or null
  int64_t table_stride;
  const int32_t* ids;
  Gate gate;
  void* dh0;           // [N, H]
};

// Final state from a table, ReLU or clip. Units are renumbered along the cycles of p, so that in each cycle the next place holds the
// predecessor. Forward, rows of the table are padded: every cycle is followed by a repetition of its beginning, and a block of
// lanes never wraps.
struct Cycles {
  bool turn;              // false for the identity: one cycle that stands still
  int64_t count;
  const int64_t* length;  // [count]
  const int64_t* padded;  // [count] where the cycle starts in a padded row
  const int32_t* unit;    // [width] which unit stands at a place of a padded row
  int64_t width;          // of a padded row
  const int32_t* order;   // [H] which unit stands at a place without padding, cycle after cycle
  int64_t blocks;
  const int32_t* cycle;   // [blocks] the cycle that a block of 64 lanes belongs to
  const int64_t* first;   // [blocks] its first lane, in the cycle
};

struct TableScan {
  Sequence sequence;
  Cycles cycles;
  Activation activation;
  const int32_t* ids;  // [N, T]
  int32_t* last_zero;  // [N, H]
  const void* table;   // forward: [V, width], state's type
  const void* h0;      // [N, H]
  void* h_n;
  const void* grad_n;  // backward: [N, H]
  void* dtable;        // [V, H] in the order of the cycles, state's type, added to
  void* dh0;
};

// One step for N sequences, h' = sigma(P h + f_r(x) * sigmoid(W_s x + b_s)). Everything is dense.
struct Map {
  const void *weight, *bias;  // [rows, columns] and [rows]; null: absent
  int64_t rows;
};
struct Cell {
  int64_t N, C, H, depth;
  const Map* hidden;      // [depth] the hidden layers of f_r, each followed by ReLU
  Map linear, gate;
  Activation activation;
  const int64_t* source;  // [H] (P h)_i = h[source[i]]; null: the shift
  const void *x, *h;      // [N, C], [N, H]
  void* out;              // [N, H]; read by the derivative
};
struct MapGradientOut {
  void *weight, *bias;  // null: not wanted
};
struct CellGradient {
  const void* grad;  // [N, H]
  void *dx, *dh;     // null: not wanted
  const MapGradientOut* hidden;
  MapGradientOut linear, gate;
};

constexpr int64_t kLanes = 64;  // units that are worked on at once; one bit each in a word of `bits`

struct Kernels {
  void (*forward)(const Forward&, int64_t n0, int64_t n1);
  void (*backward)(const Backward&, int64_t n0, int64_t n1);
  void (*table_forward)(const TableScan&, int64_t item0, int64_t item1);  // items: (sequence, block)
  void (*table_backward)(const TableScan&, int64_t n0, int64_t n1);
  void (*cell)(const Cell&);  // float32 and float64 only
  void (*cell_backward)(const Cell&, const CellGradient&);
};

enum class Type { f32, f64, bf16, f16 };

namespace baseline {
Kernels kernels(Type);
}
namespace avx2 {
Kernels kernels(Type);
}

}  // namespace srnn
