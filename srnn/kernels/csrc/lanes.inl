// The scan by lanes: a block of units at a time, with the state in registers for the whole sequence. Only for the last state
// from a table, where the rows of the table come from cache in any order. At each step a block moves one place along its cycle
// of P.

template <class T, Activation activation> void table_lanes(const TableScan& f, int64_t item0, int64_t item1) {
  typedef State<T> S;
  typedef typename Wide<S>::vec vec;
  typedef typename Wide<S>::mask mask;
  typedef typename Wide<S>::integer integer;
  const Sequence& s = f.sequence;
  const Cycles& c = f.cycles;
  constexpr int kVectors = 4, kBlock = 8 * kVectors;  // half a group: h and last_zero then fit the sixteen registers
  for (int64_t item = item0; item < item1; ++item) {
    const int64_t n = item / c.blocks, block = item % c.blocks, L = c.length[c.cycle[block]];
    const int64_t length = s.length_of(n), start = c.padded[c.cycle[block]];
    const int32_t* unit = c.unit + start;
    const int32_t* ids = f.ids + n * s.T;
    const S* table = static_cast<const S*>(f.table) + start;
    for (int64_t first = c.first[block]; first < c.first[block] + kLanes && first < L; first += kBlock) {
      S lane[kBlock];
      for (int64_t j = 0; j < kBlock; ++j) {
        T one[8] = {};
        S wide[8];
        one[0] = static_cast<const T*>(f.h0)[n * s.H + unit[first + j]];
        store(wide, load(one));
        lane[j] = wide[0];
      }
      vec h[kVectors];
      mask zero[kVectors] = {};
      for (int j = 0; j < kVectors; ++j) h[j] = load(lane + 8 * j);
      int64_t place = first;
      for (int64_t k = 1; k <= length; ++k) {
        if (c.turn) place = place == 0 ? L - 1 : place - 1;
        const S* row = table + ids[s.reverse ? length - k : k - 1] * c.width + place;
        const mask step = mask{} + (integer)k;
        if (s.is_cut(n, length, k))
          for (int j = 0; j < kVectors; ++j) h[j] = vec{}, zero[j] = step - 1;
#pragma GCC unroll 8
        for (int j = 0; j < kVectors; ++j) {
          h[j] += load(row + 8 * j);
          const mask dead = bounded<activation>(h[j]);
          if constexpr (sizeof(mask) == kRegister) zero[j] = dead ? step : zero[j];
          else zero[j] = (dead & step) | (~dead & zero[j]);
        }
      }
      for (int j = 0; j < kVectors; ++j) store(lane + 8 * j, h[j]);
      integer last[kBlock];
      for (int j = 0; j < kVectors; ++j) write(last + 8 * j, zero[j]);
      for (int64_t j = 0; j < kBlock && first + j < L; ++j) {
        const int64_t at = place + j;  // the padded row repeats itself: no wrap
        store_units(static_cast<T*>(f.h_n) + n * s.H + unit[at], lane + j, 1);
        f.last_zero[n * s.H + unit[at]] = (int32_t)last[j];
      }
    }
  }
}

template <class T> void table_forward(const TableScan& f, int64_t item0, int64_t item1) {
  with_activation(f.activation, [&](auto sigma) {  // shuffle_scan.cpp refuses those that are not bounded
    if constexpr (is_bounded(decltype(sigma)::value)) table_lanes<T, decltype(sigma)::value>(f, item0, item1);
  });
}

template <class S> INLINE void add_units(S* to, const S* from, int64_t count) {
  int64_t i = 0;
#pragma GCC unroll 4
  for (; i + 8 <= count; i += 8) store(to + i, load(to + i) + load(from + i));
  for (; i < count; ++i) to[i] += from[i];
}

// The derivative of a lane is its grad_n from the end back to the last step at which the lane was zero, and 0 before. So it is
// written once per sequence, every cycle twice in a row. Each step first clears the lanes whose last zero it is, then adds the
// derivative to a row of the gradient of the table, from a place that moves back by one.
template <class T> void table_backward(const TableScan& f, int64_t n0, int64_t n1) {
  typedef State<T> S;
  const Sequence& s = f.sequence;
  const Cycles& c = f.cycles;
  const int64_t H = s.H;
  Scratch<S> lanes(2 * H), grad(H);
  Scratch<int64_t> from(c.count);            // where in its two copies each cycle is read from
  Scratch<int32_t> dying(s.T + 1), also(H);  // linked lists, plus 1: the places whose last zero is this step
  Scratch<int32_t> first(H), second(H);      // where a place is in `lanes`
  for (int64_t j = 0, start = 0; j < c.count; start += c.length[j++])
    for (int64_t i = 0; i < c.length[j]; ++i) {
      first.memory[start + i] = (int32_t)(2 * start + i);
      second.memory[start + i] = (int32_t)(2 * start + i + c.length[j]);
    }
  for (int64_t n = n0; n < n1; ++n) {
    const int64_t length = s.length_of(n);
    const int32_t *ids = f.ids + n * s.T, *last_zero = f.kept + n * H;
    load_units(grad.memory, static_cast<const T*>(f.grad_n) + n * H, H);
    dying.memory[0] = 0;
    for (int64_t i = 0; i < H; ++i) {
      const int32_t unit = c.order[i], zero = last_zero[unit];
      lanes.memory[first.memory[i]] = lanes.memory[second.memory[i]] = grad.memory[unit];
      also.memory[i] = dying.memory[zero];
      dying.memory[zero] = (int32_t)i + 1;
    }
    for (int64_t j = 0; j < c.count; ++j) from.memory[j] = 0;
    int64_t alive = H;
    for (int64_t k = length; k >= 1; --k) {
      for (int32_t i = dying.memory[k]; i; i = also.memory[i - 1], --alive)
        lanes.memory[first.memory[i - 1]] = lanes.memory[second.memory[i - 1]] = 0;
      dying.memory[k] = 0;
      if (!alive) break;
      S* row = static_cast<S*>(f.dtable) + ids[s.reverse ? length - k : k - 1] * H;
      for (int64_t j = 0, start = 0; j < c.count; start += c.length[j++]) {
        add_units(row + start, lanes.memory + 2 * start + from.memory[j], c.length[j]);
        if (c.turn) from.memory[j] = from.memory[j] == 0 ? c.length[j] - 1 : from.memory[j] - 1;
      }
    }
    for (int64_t j = 0, start = 0; j < c.count; start += c.length[j++])
      for (int64_t i = 0; i < c.length[j]; ++i) grad.memory[c.order[start + i]] = lanes.memory[2 * start + from.memory[j] + i];
    if (length && s.is_cut(n, length, 1)) __builtin_memset(grad.memory, 0, H * sizeof(S));
    store_units(static_cast<T*>(f.dh0) + n * H, grad.memory, H);
  }
}
