package quota

import "millrace/task/value"

// entries are the tasks of a line in its order, lines go by their first tasks, sleepers by due time,
// and counters by when they open.

func entries() value.Heap[*entry] {
	return value.Heap[*entry]{Before: (*entry).before, Index: entryIndex}
}

func lines() value.Heap[*line] {
	return value.Heap[*line]{
		Before: func(a, b *line) bool { return a.first().before(b.first()) },
		Index:  func(l *line) *int { return &l.index },
	}
}

func sleepers() value.Heap[*entry] {
	return value.Heap[*entry]{Index: entryIndex, Before: func(a, b *entry) bool {
		if !a.due.Equal(b.due) {
			return a.due.Before(b.due)
		}
		return a.before(b)
	}}
}

func counters() value.Heap[*counter] {
	return value.Heap[*counter]{
		Before: func(a, b *counter) bool { return a.opens.Before(b.opens) },
		Index:  func(c *counter) *int { return &c.index },
	}
}

func entryIndex(e *entry) *int { return &e.index }
