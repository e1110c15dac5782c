package wording

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/task"
)

// tasksIn are tasks, the newest first: a word each, of a kind, a state and what else there is. A task is of
// schedule S or T, of job J, a step P of the task behind it, or of none; "." has finished, "x" has failed.
func tasksIn(t *testing.T, text string) (rows []TaskRow) {
	t.Helper()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	words := strings.Fields(text)
	for i, word := range words {
		r := TaskRow{Task: task.Task{ID: task.ID(fmt.Sprintf("%02d", len(words)-i))}}
		r.SubmittedAt = noon.Add(-time.Duration(i) * time.Minute)
		name, state, parent := word[:1], word[1:2], word[2:]
		if parent != "" {
			r.Parent = task.ID(fmt.Sprintf("%02s", parent))
		}
		if name == "J" {
			r.Job = name
		} else if name != "-" {
			r.Schedule, r.Tick = name, r.SubmittedAt.Add(-time.Hour)
		}
		var known bool
		r.State, known = map[string]task.State{".": task.Finished, "x": task.Error, "!": task.Abnormal, "c": task.Cancelled, "p": task.Pending, "s": task.Scheduled, "r": task.Running, "y": task.Retrying, "h": task.Held, "u": task.Pending}[state]
		if !known {
			t.Fatalf("%s has no state", word)
		}
		if state == "u" {
			r.Doubt = "unserved"
		}
		rows = append(rows, r)
	}
	return rows
}

// Many runs of a schedule or a job between two other tasks stand in one row, which says how many have failed;
// what goes on stands by itself, and steps stand below their parents.
func TestLines(t *testing.T) {
	t.Parallel()
	tens := strings.Repeat("J. ", 10)
	for _, c := range []struct{ name, rows, want string }{
		{"four of a schedule", "S. S. S. S.", "S*4 finished 4"},
		{"three", "S. S. S.", "S3 S2 S1"},
		{"failures are counted, the latest is said", "S. Sx S! S. Sc Sp Ss", "S*7 bad 2 last 6 finished 2 cancelled 1 pending 1 scheduled 1"},
		{"two schedules in turn", "S. T. S. Tx S. T. S. T.", "S*4 finished 4 T*4 bad 1 last 5 finished 3"},
		{"a run of another", "S. S. T. S. S.", "S*4 finished 4 T3"},
		{"what goes on stands by itself", "Sr S. S. Sy S. Sh S. Su S. S. S. S.", "S12 S11 S10 S9 S8 S7 S6 S5 S*4 finished 4"},
		{"another task divides them", "S. S. S. S. -. S. S. S. S.", "S*4 finished 4 -5 S*4 finished 4"},
		{"nine of a job", tens[3:], "J9 J8 J7 J6 J5 J4 J3 J2 J1"},
		{"ten of a job", tens, "J*10 finished 10"},
		{"tasks of nothing", "-. -. -. -. -. -. -. -. -. -. -.", "-11 -10 -9 -8 -7 -6 -5 -4 -3 -2 -1"},
		{"steps stand below", "-.1 -.5 -.1 -. -. -.1 -.", "-4 -3 -1 >-2 >-5 >>-6 >-7"},
		{"steps of steps", "-.5 -.4 -.3 -.2 -.1 -.", "-1 >-2 >>-3 >>>-4 >>>>-5 >>>>-6"},
		{"a step of a task on another page", "-.0 -.", "-2 -1"},
		{"steps are in the row of their run", "-.3 S. S. S. S. -.", "S*4 with 1 finished 4 -1"},
		{"a failed step of a run that has not", "S. S. S. S. -x5 S. S. S. S. S.", "S*4 finished 4 S5 >-6 S*4 finished 4"},
		{"a failed step of one that has", "-x2 S. S. Sx S.", "S*4 with 1 bad 1 last 2 finished 3"},
		{"steps of a task on another page", strings.Repeat("J.0 ", 10), "J10 J9 J8 J7 J6 J5 J4 J3 J2 J1"},
		{"a step of a scheduled run on another page", "J.0 S. S. S. S.", "J5 S*4 finished 4"},
	} {
		var got, marks []string
		for _, l := range Lines(tasksIn(t, c.rows), true) {
			r := l.Runs
			if r == nil {
				got = append(got, strings.Repeat(">", l.Row.Depth)+nameOf(l.Row)+strings.TrimLeft(string(l.Row.ID), "0"))
				continue
			}
			text := fmt.Sprintf("%s*%d", r.Name, r.N)
			if marks = append(marks, r.Mark); r.From.IsZero() || !r.From.Before(r.To) {
				t.Errorf("%s: they are from %v to %v", c.name, r.From, r.To)
			}
			if n := r.Steps(); n > 0 {
				text += fmt.Sprintf(" with %d", n)
			}
			if r.Bad > 0 {
				text += fmt.Sprintf(" bad %d last %s", r.Bad, strings.TrimLeft(string(r.Last.ID), "0"))
			}
			for _, o := range r.Others {
				text += fmt.Sprintf(" %s %d", o.State, o.N)
			}
			got = append(got, text)
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: they are %s, want %s", c.name, text, c.want)
		}
		if len(marks) > 1 && marks[0][:10] == marks[1][:10] && !slices.Equal(marks, []string{"schedule-S-1", "schedule-S-0"}) {
			t.Errorf("%s: the marks are %q, counted from the oldest", c.name, marks)
		}
	}
	rows := tasksIn(t, "S. S. Sx S.")
	rows[1].Tick = rows[0].Tick.Add(time.Hour) // made up for later
	if r := Lines(rows, true)[0].Runs; r.To != rows[1].Tick || r.Only("state:error x", true) != "schedule:S state:error,abnormal x" || r.Only("x", false) != "schedule:S x" {
		t.Errorf("they are until %v, and found by %s", r.To, r.Only("state:error x", true))
	}
}

func nameOf(r *TaskRow) string {
	switch {
	case r.Schedule != "":
		return r.Schedule
	case r.Job != "":
		return r.Job
	}
	return "-"
}
