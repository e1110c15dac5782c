package events

import (
	"cmp"
	"slices"

	"millrace/task"
)

// Recall returns the facts about one definition, breaker or tick as they were before the log forgot some of
// them: what repeats an earlier fact stands in the place of that one, and only once.
func Recall(records []Record) []Record {
	if !slices.ContainsFunc(records, func(r Record) bool { return r.Fact.Repeats > 0 }) {
		return records
	}
	there, all := map[uint64]bool{}, make([]Record, 0, len(records))
	for i := range records {
		if records[i].Fact.Repeats == 0 {
			there[records[i].Seq] = true
		}
	}
	for _, r := range records {
		if at := r.Fact.Repeats; at > 0 {
			if there[at] {
				continue
			}
			there[at], r.Seq = true, at
			if c, carried := r.Fact.Event.(task.DefinitionCarried); carried {
				r.Kind, r.Fact.Event = KindDefinition, c.Change()
				r.Fact.Type = TypeOf(r.Fact.Event)
			}
		}
		all = append(all, r)
	}
	slices.SortStableFunc(all, func(a, b Record) int { return cmp.Compare(a.Seq, b.Seq) })
	return all
}
