package quota

// indexed is an element of a [heapOf]. It knows its index there, -1 for none, so that it can be
// moved or removed from the middle.
type indexed interface{ place() *int }

// heapOf implements heap.Interface for any order, with the first element on top.
type heapOf[T indexed] struct {
	list   []T
	before func(T, T) bool
}

func (h *heapOf[T]) Len() int           { return len(h.list) }
func (h *heapOf[T]) Less(i, j int) bool { return h.before(h.list[i], h.list[j]) }

func (h *heapOf[T]) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	*h.list[i].place(), *h.list[j].place() = i, j
}

func (h *heapOf[T]) Push(x any) {
	e := x.(T)
	*e.place() = len(h.list)
	h.list = append(h.list, e)
}

func (h *heapOf[T]) Pop() any {
	n := len(h.list) - 1
	e := h.list[n]
	clear(h.list[n:])
	h.list = h.list[:n]
	*e.place() = -1
	return e
}

func (e *entry) place() *int   { return &e.index }
func (l *line) place() *int    { return &l.index }
func (c *counter) place() *int { return &c.index }

// The orders of the heaps: entries in a line, lines by their first entry, tasks and rates by due
// time.
func firstEntry(a, b *entry) bool { return a.before(b) }

func firstLine(a, b *line) bool { return a.first().before(b.first()) }

func dueFirst(a, b *entry) bool {
	if !a.due.Equal(b.due) {
		return a.due.Before(b.due)
	}
	return a.before(b)
}

func opensFirst(a, b *counter) bool { return a.opens.Before(b.opens) }
