// The arguments of the kernels, without torch types and without templates. The kernels themselves are in
//
//   simd.inl    vectors, activations
//   rows.inl    the scans, step by step
//   lanes.inl   the last state from a table, block of units by block of units
//   cell.inl    one step of the layer
//
// and compute
//
//   h_t = sigma(P h_{t-1} + b_t)            (P h)_i = h_{p[i]}
//   d_t = sigma'_t (g_t + P^T d_{t+1})
//
// A tensor [N, T, H] is given by its first element and its strides in n and t, in elements. Units are contiguous.
// Steps k are counted in the order of the recurrence, from 1 to the length of a row. Reversed rows go from their end to t = 0.
#pragma once

#include <cstdint>
#include <limits>
#include <new>
#include <type_traits>

namespace srnn {

// Where a unit finds its predecessor: in the next unit (shift), in itself (identity), or by an index.
enum class Link { shift, identity, gather };

// sigma: max(0, v), tanh(v), or v clamped to [-1, 1]. simd.inl has the code, srnn/kernels/activations.py the table of Python.
enum class Activation { relu, tanh, clip };
constexpr struct {
  const char* name;
  Activation activation;
} kActivations[] = {{"relu", Activation::relu}, {"tanh", Activation::tanh}, {"clip", Activation::clip}};

// Whether sigma clamps to bounds: then its derivative is 0 at a bound and 1 elsewhere, and one bit per state is enough for it.
constexpr bool is_bounded(Activation activation) { return activation != Activation::tanh; }

struct Sequence {
  int64_t N, T, H;
  const int64_t* lengths;  // [N] or null: all T
  const bool* reset;       // [N, T] or null: where true, no state passes from t - 1 to t or back
  bool reverse;
  Link link;
  const int32_t* source;       // [H] p, when link is gather
  const int32_t* destination;  // [H] the inverse of p

  int64_t length_of(int64_t n) const { return lengths ? lengths[n] : T; }
  // Whether the state is cleared before step k of sequence n. Nothing comes before the first step of a reversed row.
  bool is_cut(int64_t n, int64_t length, int64_t k) const {
    if (!reset || (reverse && k == 1)) return false;
    return reset[n * T + (reverse ? length - k + 1 : k - 1)];
  }
};

// Where b_t of sequence n is read: b itself, or a table [V, H] by ids [N, T].
struct Input {
  const void* base;
  int64_t stride_n, stride_t;
  const int32_t* ids;  // null: dense
};

// b = (r + c) * sigmoid(q + e), from r = z W^T and q = x U^T. Each product is that of a matrix product of a chunk of sequences,
// which its derivative overwrites, or is computed inside the scan, cheaper than to store and load it if it has few columns.
enum class Made { no, without_gate, with_gate };
constexpr int64_t kFewHidden = 8, kFew = 4;  // columns of z and of x
struct Gate {
  Made made;                     // no: b is read from memory
  int64_t first;                 // the first sequence of the chunk
  const void *bias, *gate_bias;  // [H] or null
  void *r, *q;                   // [chunk, T, H], where they are products
  int64_t K, C;                  // few columns of z and of x; 0: r, or q, is a product
  const void *z, *weight;        // [N, T, K] and [H, K]
  const void *x, *gate_weight;   // [N, T, C] and [H, C]
  void *bias_sum, *gate_sum;     // derivative: [chunk, H] in the state's type, sums over time
  void* weight_sum;              // [chunk, K, H]
  void* gate_weight_sum;         // [chunk, C, H]
  void* dz;                      // [N, T, K], or null
};

// What a forward pass returns: all states, or only the one after each row's last step.
enum class Wanted { states, last_state };

struct Forward {
  Sequence sequence;
  Input input;
  Gate gate;
  Activation activation;
  Wanted wanted;
  const void* h0;      // [N, H]
  void* h_n;           // [N, H]
  void* output;        // states: [N, T, H]
  uint8_t* bits;       // states of a bounded activation: [N, T, groups of 64 units]
  int32_t* last_zero;  // last state: [N, H], the last step whose derivative is 0, or k - 1 for a cut at step k
};

// What the forward pass kept for the derivative: a bit per unit and step, the states of tanh, or the last step at which the
// derivative of a unit was 0.
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
  void* db;     // [N, T, H], or null
  void* table;  // [V, stride] in the state's type, added to, or null
  int64_t table_stride;
  const int32_t* ids;
  Gate gate;
  void* dh0;  // [N, H]
};

// The last state from a table, for a bounded activation. Units are renumbered along the cycles of p, so that in each cycle the
// next place holds the predecessor. In the forward pass the rows of the table are padded: every cycle is followed by a copy of
// its beginning, so a block of lanes never wraps.
struct Cycles {
  bool turn;  // false for the identity: one cycle that does not move
  int64_t count;
  const int64_t* length;  // [count]
  const int64_t* padded;  // [count] where the cycle starts in a padded row
  const int32_t* unit;    // [width] the unit at each place of a padded row
  int64_t width;          // of a padded row
  const int32_t* order;   // [H] the unit at each place without padding, cycle after cycle
  int64_t blocks;
  const int32_t* cycle;  // [blocks] the cycle that a block of 64 lanes belongs to
  const int64_t* first;  // [blocks] its first lane, in the cycle
};

struct TableScan {
  Sequence sequence;
  Cycles cycles;
  Activation activation;
  const int32_t* ids;  // [N, T]
  int32_t* last_zero;  // forward: [N, H]
  const void* table;   // [V, width], state's type
  const void* h0;      // [N, H]
  void* h_n;
  const void* grad_n;   // backward: [N, H]
  const int32_t* kept;  // [N, H] the last zeros
  void* dtable;         // [V, H] in the order of the cycles, state's type, added to
  void* dh0;
};

// One step for N sequences, h' = sigma(P h + f_r(x) * sigmoid(W_s x + b_s)). Everything is dense.
struct Map {
  const void *weight, *bias;  // [rows, columns] and [rows]; null: absent
  int64_t rows;
};
struct Cell {
  int64_t N, C, H, depth;
  const Map* hidden;  // [depth] the hidden layers of f_r, each followed by ReLU
  Map linear, gate;
  Activation activation;
  const int64_t* source;  // [H] (P h)_i = h[source[i]]; null: the shift
  const void *x, *h;      // [N, C], [N, H]
  void* out;              // [N, H]
};
struct MapGradientOut {
  void *weight, *bias;  // null: not wanted
};
struct CellGradient {
  const void *grad, *out;  // [N, H]
  void *dx, *dh;           // null: not wanted
  const MapGradientOut* hidden;
  MapGradientOut linear, gate;
};

constexpr int64_t kLanes = 64;  // units in a group; one bit each in a word of `bits`
inline int64_t groups_of(int64_t H) { return (H + kLanes - 1) / kLanes; }

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
