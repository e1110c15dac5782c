package chaos

import (
	"fmt"
	"slices"
	"strings"

	"millrace/events"
	"millrace/task"
)

// Judgement is what a log says about the promises.
type Judgement struct {
	// Tasks is how many there are.
	Tasks int
	// Lost are acknowledged submissions that the log does not know, Duplicated
	// tasks with two accepted ends in one life, Stuck those that have not ended.
	Lost, Duplicated, Stuck []task.ID
	// Broken says which promises are broken, and where to look; nothing if none is.
	Broken []string
	// States counts the tasks by state.
	States map[task.State]int
}

// judge holds a log that has come to rest against the promises. It is the one
// place that decides whether a run was good.
func judge(records []events.Record, acknowledged []task.ID) Judgement {
	j := Judgement{States: map[task.State]int{}}
	tasks := map[task.ID]task.Task{}
	ended := map[task.ID]bool{} // in the present life
	var order []task.ID
	for i := range records {
		r := &records[i]
		id := r.Fact.Task
		if id == "" {
			continue
		}
		t, known := tasks[id]
		if !known {
			t.ID = id
			order = append(order, id)
		}
		tasks[id] = task.Evolve(t, r.Task())
		switch {
		case r.Fact.Type == events.TaskReopened:
			ended[id] = false
		case ends(r):
			if ended[id] && !slices.Contains(j.Duplicated, id) {
				j.Duplicated = append(j.Duplicated, id)
			}
			ended[id] = true
		}
	}
	for _, id := range order {
		t := tasks[id]
		if j.States[t.State]++; !t.State.Terminal() {
			j.Stuck = append(j.Stuck, id)
		}
	}
	j.Tasks = len(order)
	for _, id := range acknowledged {
		if _, ok := tasks[id]; !ok {
			j.Lost = append(j.Lost, id)
		}
	}
	say := func(what string, ids []task.ID) {
		if len(ids) > 0 {
			j.Broken = append(j.Broken, fmt.Sprintf("%d %s: %s", len(ids), what, some(ids)))
		}
	}
	say("acknowledged submissions are not in the log", j.Lost)
	say("tasks have two accepted ends", j.Duplicated)
	say("tasks have not ended", j.Stuck)
	return j
}

// ends tells whether a fact ends its task's life.
func ends(r *events.Record) bool {
	switch e := r.Fact.Event.(type) {
	case task.AttemptFinished, task.CancelConfirmed, task.GivenUp:
		return true
	case task.AttemptFailed:
		return e.Retry == nil
	}
	return false
}

// some names the first of many tasks.
func some(ids []task.ID) string {
	const most = 5
	words := make([]string, 0, most)
	for _, id := range ids[:min(len(ids), most)] {
		words = append(words, string(id))
	}
	text := strings.Join(words, ", ")
	if len(ids) > most {
		text += fmt.Sprintf(" and %d more", len(ids)-most)
	}
	return text
}
