package thin

import "strings"

// Words are texts that many tasks have in common: nodes, sessions, routes. Of each its number is kept; 0 is the empty one.
type Words struct {
	index map[string]Word
	list  []string
}

// Word is the number of a text.
type Word uint32

// NewWords has the empty text.
func NewWords() Words { return Words{index: map[string]Word{"": 0}, list: []string{""}} }

// Text is what has a number.
func (w *Words) Text(n Word) string { return w.list[n] }

// Number is that of a text, which shares no memory with it.
func (w *Words) Number(s string) Word {
	if s == "" {
		return 0
	}
	if n, ok := w.index[s]; ok {
		return n
	}
	s = strings.Clone(s)
	n := Word(len(w.list))
	w.index[s] = n
	w.list = append(w.list, s)
	return n
}
