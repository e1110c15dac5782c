package wording

import (
	"fmt"

	"millrace/task"
)

// Unheard names the attempts whose worker never reported their end, so that their output may be
// incomplete, and after which line; last returns the number of the last line of an epoch, 0 if
// there is none.
func Unheard(tries []task.Try, last func(epoch uint64) int) []string {
	var notes []string
	for i := range tries {
		t := &tries[i]
		if !t.Unheard() {
			continue
		}
		if n := last(t.Epoch); n > 0 {
			notes = append(notes, fmt.Sprintf("what attempt %d printed after line %d may be missing: its worker was lost", t.Attempt, n))
		} else {
			notes = append(notes, fmt.Sprintf("what attempt %d printed may be missing: its worker was lost", t.Attempt))
		}
	}
	return notes
}
