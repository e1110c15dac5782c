package birth_test

import (
	"fmt"
	"testing"

	"millrace/task"
	"millrace/task/placement"
)

func TestLane(t *testing.T) {
	t.Parallel()
	seen := map[int]int{}
	for i := range 1600 {
		w := task.Work{FairKey: fmt.Sprint("tenant-", i)}
		lane := w.Lane().Number
		if lane < 1 || lane > placement.Lanes || lane != w.Lane().Number {
			t.Fatalf("lane %d", lane)
		}
		seen[lane]++
	}
	for lane := 1; lane <= placement.Lanes; lane++ {
		if seen[lane] < 50 || seen[lane] > 150 {
			t.Errorf("lane %d has %d of 1600 keys", lane, seen[lane])
		}
	}
	if lane := (&task.Work{}).Lane().Number; lane != 0 {
		t.Errorf("without a key the lane is %d", lane)
	}
}
