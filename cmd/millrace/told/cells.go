package told

import (
	"millrace/cmd/millrace/term"
	"millrace/events"
)

// TypeCell is the type of a fact, in the colour of what it says.
func TypeCell(r *events.Record) term.Cell {
	text := FactType(r)
	if r.Err != nil {
		return term.Tinted(text, term.Red)
	}
	return term.Tinted(text, map[events.Type]term.Colour{
		events.AttemptStarted: term.Blue, events.AttemptFinished: term.Green, events.AttemptFailed: term.Red, events.AttemptLost: term.Purple,
		events.AttemptLate: term.Purple, events.TaskAbnormal: term.Purple, events.TaskCancelRequested: term.Yellow, events.TaskCancelled: term.Yellow,
		events.NodeOnline: term.Green, events.NodeOffline: term.Red, events.NodeDraining: term.Yellow,
	}[r.Fact.Type])
}
