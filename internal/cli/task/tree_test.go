package task

import (
	"strings"
	"testing"
	"time"

	"millrace/internal/cli/term"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/value"
)

// The tree of a function has its steps, each with the children that it has called.
func TestTreeOfSteps(t *testing.T) {
	t.Parallel()
	const spawned = task.ID("01JD6Z8V3M0QK4T7W2X9Y5ABCF")
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	branch := view.Branch{
		Task: task.Task{ID: id1, State: task.Held, Reason: task.HoldNeeds, Durable: &task.Durable{
			Steps: []task.Step{{Name: "charge", Kind: task.StepDo, At: now, Took: value.Duration(2 * time.Second)},
				{Name: "mail", Kind: task.StepDo, Error: "no post", Tries: 3, At: now}},
			Parked: &task.Parked{Park: task.Park{Step: "thumb", Kind: task.StepCall, Of: []task.Need{{Task: id2}}}, Since: now.Add(-time.Minute)},
		}},
		Branches: []view.Branch{{Task: task.Task{ID: spawned, State: task.Running}, Spawned: true}, {Name: "thumb", Task: task.Task{ID: id2, State: task.Running}, Spawned: true}},
	}
	root := leafOf(&branch, now)
	var rows []string
	table := root.table()
	for _, row := range table.Rows {
		var cells []string
		for _, c := range row {
			if c.Text != "" {
				cells = append(cells, c.Text)
			}
		}
		rows = append(rows, strings.Join(cells, " "))
	}
	want := []string{
		". 9Y5ABCD held/needs",
		"├─ charge done 2s",
		"├─ mail failed 3 no post",
		"├─ thumb waits 1m00s 1 child: " + string(id2),
		"│  └─ thumb 9Y5ABCE running",
		"└─ (spawned) 9Y5ABCF running",
	}
	if is := strings.Join(rows, "\n"); is != strings.Join(want, "\n") {
		t.Errorf("it shows\n%s\nwant\n%s", is, strings.Join(want, "\n"))
	}
	graph := root.picture()
	if dot := term.Dot(&graph); !strings.Contains(dot, "charge") || strings.Count(dot, string(id2)) == 0 {
		t.Errorf("the drawing lacks steps:\n%s", dot)
	}
	if len(root.Children) != 2 || len(root.Steps) != 3 || root.find([]string{"charge"}) != nil {
		t.Errorf("as JSON it has %d children and %d steps", len(root.Children), len(root.Steps))
	}
}
