package task

import (
	"fmt"
	"testing"
	"time"

	"millrace/internal/testkit"
	"millrace/projections/view"
	"millrace/task"
)

func TestTimelines(t *testing.T) {
	now := noon.Add(50 * time.Second)
	phases := view.Phases(recorded(), now)
	testkit.Table(t, "timeline", timeline(phases, nil, 80), 80, false)
	testkit.Table(t, "timeline_narrow_coloured", timeline(phases, nil, 56), 56, true)
	var many []view.Phase
	for i := range 15 {
		at := noon.Add(time.Duration(i) * 5 * time.Hour)
		many = append(many, view.Phase{Name: "run", Attempt: i + 1, Node: "a-node-with-a-name-that-is-too-long", From: at, To: at.Add(2 * time.Hour)})
		many = append(many, view.Phase{Name: "stop", Attempt: i + 1, Node: "n\x1b[31m1", From: at.Add(2 * time.Hour), To: at.Add(3 * time.Hour)})
		many = append(many, view.Phase{Name: "retrying", Reason: "exit", From: at.Add(3 * time.Hour), To: at.Add(5 * time.Hour)})
	}
	testkit.Table(t, "timeline_long", timeline(many, nil, 80), 80, false)
	if is := timeline(nil, nil, 80); len(is.Header)+len(is.Rows) > 0 {
		t.Errorf("of a task that is not born: %+v", is)
	}
}

func TestChainTables(t *testing.T) {
	c, err := view.Chain(t.Context(), view.Past(recorded(), view.Moment{}), id1)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Table(t, "why_chain", chainTable(id1, c), 0, false)
	c.Left, c.Missing = 3, []task.ID{id2}
	testkit.Table(t, "why_chain_80", chainTable(id1, c), 80, false)
}

func TestMarks(t *testing.T) {
	for _, c := range []struct {
		from, to, whole time.Duration
		want            string
	}{
		{0, 10, 10, "0 20"}, {0, 5, 10, "0 10"}, {5, 10, 10, "10 20"}, {0, 1, 1000, "0 1"}, {1000, 1000, 1000, "19 20"}, {500, 500, 1000, "10 11"},
		{0, 0, 0, "0 1"}, {26, 51, 1000, "0 2"},
	} {
		if first, end := marks(c.from, c.to, c.whole, 20); fmt.Sprint(first, end) != c.want {
			t.Errorf("%d to %d of %d: %d %d, want %s", c.from, c.to, c.whole, first, end, c.want)
		}
	}
}
