package told

import (
	"encoding/json"

	"millrace/cmd/millrace/term"
	"millrace/events"
)

// TypeCell is the type of a fact, in a colour for its meaning.
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

// longValue is how much of a value fits a cell.
const longValue = 80

// Value is a JSON value for people: a text without its quotes; "" for none.
func Value(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) != nil {
		text = string(value)
	}
	return term.Cut(text, longValue)
}
