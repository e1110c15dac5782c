package wording

import (
	"slices"
	"testing"

	"millrace/task"
)

func TestUnheard(t *testing.T) {
	tries := []task.Try{
		{Attempt: 1, Epoch: 10, Outcome: task.TryLost}, {Attempt: 1, Epoch: 20, Outcome: task.TryTakenOver}, {Attempt: 2, Epoch: 30, Outcome: task.TryFailed},
		{Attempt: 3, Epoch: 40, Outcome: task.TryReleased}, {Attempt: 3, Epoch: 50, Outcome: task.TryFinished},
	}
	got := Unheard(tries, func(epoch uint64) int { return map[uint64]int{10: 7, 30: 8}[epoch] })
	want := []string{"what attempt 1 printed after line 7 may be missing: its worker was lost", "what attempt 1 printed may be missing: its worker was lost"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
