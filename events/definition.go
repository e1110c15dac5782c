package events

import "millrace/task"

// FoldDefinition adds up the records of one definition's chain, in the order of the log. What cannot be read
// changes nothing.
func FoldDefinition(records []Record) task.Definition {
	var d task.Definition
	for i := range records {
		r := &records[i]
		if e, ok := r.Fact.Event.(task.DefinitionEvent); ok && r.Err == nil {
			d = task.EvolveDefinition(d, r.Seq, r.Fact.At, r.Fact.Actor, e)
		}
	}
	return d
}
