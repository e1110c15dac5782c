package value

// Heap has the first of its elements by an order at hand. Of equal elements any may be the first.
type Heap[T any] struct {
	// Before tells whether an element precedes another one.
	Before func(T, T) bool
	// Index returns where an element stores its index, for [Heap.Fix] and [Heap.Remove]; the index is -1
	// when the element has left the heap. Default: it is not stored.
	Index func(T) *int

	list []T
}

// All are the elements, the first one first, the others in any order. They are the heap's own: to
// be read until the heap changes.
func (h *Heap[T]) All() []T { return h.list }

// Len is the number of elements.
func (h *Heap[T]) Len() int { return len(h.list) }

// First returns the first element of a heap that is not empty.
func (h *Heap[T]) First() T { return h.list[0] }

// Push adds an element.
func (h *Heap[T]) Push(e T) {
	h.list = append(h.list, e)
	h.note(len(h.list) - 1)
	h.up(len(h.list) - 1)
}

// Pop removes and returns the first element of a heap that is not empty.
func (h *Heap[T]) Pop() T { return h.Remove(0) }

// Remove removes and returns the element at an index.
func (h *Heap[T]) Remove(i int) T {
	last := len(h.list) - 1
	h.swap(i, last)
	e := h.list[last]
	clear(h.list[last:]) // let go of it
	h.list = h.list[:last]
	if i < last {
		h.Fix(i)
	}
	if h.Index != nil {
		*h.Index(e) = -1
	}
	return e
}

// Fix moves the element at an index to its place after it has changed.
func (h *Heap[T]) Fix(i int) {
	if !h.down(i) {
		h.up(i)
	}
}

func (h *Heap[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.Before(h.list[i], h.list[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

// down tells whether it has moved the element.
func (h *Heap[T]) down(i int) bool {
	from := i
	for {
		child := 2*i + 1
		if child >= len(h.list) {
			break
		}
		if right := child + 1; right < len(h.list) && h.Before(h.list[right], h.list[child]) {
			child = right
		}
		if !h.Before(h.list[child], h.list[i]) {
			break
		}
		h.swap(i, child)
		i = child
	}
	return i > from
}

func (h *Heap[T]) swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.note(i)
	h.note(j)
}

// note stores the index of the element there.
func (h *Heap[T]) note(i int) {
	if h.Index != nil {
		*h.Index(h.list[i]) = i
	}
}
