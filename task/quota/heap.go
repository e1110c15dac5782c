package quota

import "millrace/internal/collections"

// entries are the tasks of a line in its order, lines go by their first tasks, sleepers by due time,
// and counters by when they open.

func entries() collections.Of[*entry] {
	return collections.Of[*entry]{Before: (*entry).before, Index: entryIndex}
}

func lines() collections.Of[*line] {
	return collections.Of[*line]{
		Before: func(a, b *line) bool { return a.first().before(b.first()) },
		Index:  func(l *line) *int { return &l.index },
	}
}

func sleepers() collections.Of[*entry] {
	return collections.Of[*entry]{Index: entryIndex, Before: func(a, b *entry) bool {
		if !a.due.Equal(b.due) {
			return a.due.Before(b.due)
		}
		return a.before(b)
	}}
}

func counters() collections.Of[*counter] {
	return collections.Of[*counter]{
		Before: func(a, b *counter) bool { return a.opens.Before(b.opens) },
		Index:  func(c *counter) *int { return &c.index },
	}
}

func entryIndex(e *entry) *int { return &e.index }
