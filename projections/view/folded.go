package view

import (
	"context"

	"millrace/events"
	"millrace/task"
	"millrace/task/quota"
)

// Folded is a [Whole] in memory, which the records up to its place add up to.
type Folded struct {
	*World
	*Memory
}

var _ Whole = Folded{}

// FoldedAt is the place in the log up to which a model has folded it, with the facts about single
// subjects.
func FoldedAt(m *Memory, facts Facts) Folded { return Folded{At(m, facts, m.at.Seq), m} }

// Past is the world at a moment, from the log's records from the first one on.
func Past(records []events.Record, m Moment) *World {
	model := NewMemory()
	for i := range records {
		if m.Before(&records[i]) {
			break
		}
		model.Add(&records[i])
	}
	return At(model, Slice(records).About, model.at.Seq)
}

// Standing implements [View].
func (f Folded) Standing(ctx context.Context, id task.ID, holders int) (*quota.Standing, error) {
	return Standing(ctx, f, id, holders)
}

// Steps implements [Whole].
func (f Folded) Steps(_ context.Context, earlier Whole, filter Filter, most int) (Steps, error) {
	steps := Steps{Of: map[[2]task.State]int{}}
	was, same := earlier.(Folded)
	if !same {
		return steps, ErrUnindexed
	}
	for _, id := range f.from("", true) {
		is, before := &f.tasks[id].Task, task.Unknown
		if there := was.tasks[id]; there != nil {
			before = there.State
		}
		if is.State == before || !filter.Match(is) {
			continue
		}
		if steps.Of[[2]task.State{before, is.State}]++; len(steps.First) < most {
			steps.First, steps.Was = append(steps.First, *is), append(steps.Was, before)
		}
	}
	return steps, nil
}
