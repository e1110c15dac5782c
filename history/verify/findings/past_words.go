package findings

import "strings"

// Words numbers texts that many tasks share: nodes, sessions, routes. 0 is the empty text.
type Words struct {
	index map[string]Word
	list  []string
}

// Word is the number of a text.
type Word uint32

// NewWords has the empty text.
func NewWords() Words { return Words{index: map[string]Word{"": 0}, list: []string{""}} }

// Text returns the text with a number.
func (w *Words) Text(n Word) string { return w.list[n] }

// Number returns the number of a text. It keeps no reference to the text's memory.
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
