package wording

import (
	"fmt"
	"slices"
	"time"

	"millrace/projections/view"
	"millrace/task"
)

// leastFolded is from how many runs on they stand in one row, by the key of queries that chooses them:
// those of a schedule, or of a job without one.
var leastFolded = map[string]int{"schedule": 4, "job": 10}

// deepest is how far a step is indented at most.
const deepest = 4

// Line is a row of a page of tasks: one of Row, a task, and Runs, which stand in one row, is not nil.
type Line struct {
	Row  *TaskRow
	Runs *Runs
}

// Runs are ended or waiting runs of one schedule or job, with their steps.
type Runs struct {
	// Mark is the same when more of them are on the page.
	Mark string
	// Key and Name are the term of a query that chooses them.
	Key, Name string
	// N is how many runs there are, of which Bad have failed.
	N, Bad int
	// Others are those that have not failed, by their states.
	Others []StateCount
	// From and To are the first and the last planned time, or of submission.
	From, To time.Time
	// Last is the latest one that has failed; nil for none.
	Last *TaskRow
	// Tasks are the runs and their steps.
	Tasks family
}

// family is a task and the steps that stand below it.
type family []*TaskRow

// StateCount is how many are in a state.
type StateCount struct {
	State task.State
	N     int
}

// Steps is how many of the tasks are steps.
func (r *Runs) Steps() int { return len(r.Tasks) - r.N }

// Only is a query that chooses these runs, of those that another one chooses, or the failed ones alone.
func (r *Runs) Only(query string, failed bool) string {
	if failed {
		query = view.WithTerm(query, "state", "error,abnormal")
	}
	return view.WithTerm(query, r.Key, view.Term(r.Name))
}

// Lines arranges tasks, of which the newest come first: steps stand below their parents, and many runs between
// two tasks that stand by themselves in one row, at the place of the newest.
func Lines(rows []TaskRow, folds bool) (all []Line) {
	var between []family // each with its steps
	for _, run := range families(rows) {
		if key, _ := run.key(); folds && key != "" {
			between = append(between, run)
			continue
		}
		all = append(folded(all, between), run.lines()...)
		between = nil
	}
	all = folded(all, between)
	marks := map[string]int{}
	for i := range slices.Backward(all) { // from the oldest: new runs come at the other end
		if r := all[i].Runs; r != nil {
			r.Mark = fmt.Sprintf("%s-%s-%d", r.Key, r.Name, marks[r.Key+r.Name])
			marks[r.Key+r.Name]++
		}
	}
	return all
}

func (f family) lines() (all []Line) {
	for _, row := range f {
		all = append(all, Line{Row: row})
	}
	return all
}

// families are the tasks without a parent among them, each with its steps behind it, the first step first.
func families(rows []TaskRow) (all []family) {
	there, steps := map[task.ID]bool{}, map[task.ID]family{}
	for i := range rows {
		there[rows[i].ID] = true
	}
	for i := range slices.Backward(rows) {
		steps[rows[i].Parent] = append(steps[rows[i].Parent], &rows[i])
	}
	var add func(row *TaskRow, depth int)
	add = func(row *TaskRow, depth int) {
		row.Depth = min(depth, deepest)
		last := len(all) - 1
		all[last] = append(all[last], row)
		for _, step := range steps[row.ID] {
			add(step, depth+1)
		}
	}
	for i := range rows {
		if !there[rows[i].Parent] {
			all = append(all, nil)
			add(&rows[i], 0)
		}
	}
	return all
}

// key is the term that chooses a run and may fold it; "" if it stands by itself: it goes on, a step of it has
// failed though it has not, or it waits for what a person may have to see to.
func (f family) key() (key, name string) {
	for _, row := range f {
		quiet := row.State.Terminal() || row.State == task.Pending || row.State == task.Scheduled
		if !quiet || row.Doubt != "" || row.State.Failed() && !f[0].State.Failed() {
			return "", ""
		}
	}
	switch root := f[0]; {
	case root.Parent != "":
		return "", ""
	case root.Schedule != "":
		return "schedule", root.Schedule
	case root.Job != "":
		return "job", root.Job
	}
	return "", ""
}

// folded adds runs, those of one key in one row if they are many.
func folded(all []Line, between []family) []Line {
	of := map[string]*Runs{}
	for _, run := range between {
		key, name := run.key()
		if of[key+name] == nil {
			of[key+name] = &Runs{Key: key, Name: name}
		}
		of[key+name].add(run)
	}
	for _, run := range between {
		key, name := run.key()
		switch is := of[key+name]; {
		case is.N < leastFolded[key]:
			all = append(all, run.lines()...)
		case is.Tasks[0] == run[0]:
			all = append(all, Line{Runs: is})
		}
	}
	return all
}

func (r *Runs) add(run family) {
	r.N++
	r.Tasks = append(r.Tasks, run...)
	at := run[0].Tick
	if at.IsZero() {
		at = run[0].SubmittedAt
	}
	if r.From.IsZero() || at.Before(r.From) {
		r.From = at
	}
	if at.After(r.To) {
		r.To = at
	}
	if run[0].State.Failed() {
		if r.Bad++; r.Last == nil {
			r.Last = run[0]
		}
		return
	}
	i := slices.IndexFunc(r.Others, func(c StateCount) bool { return c.State == run[0].State })
	if i < 0 {
		i, r.Others = len(r.Others), append(r.Others, StateCount{State: run[0].State})
	}
	r.Others[i].N++
}
