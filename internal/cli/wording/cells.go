package wording

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/internal/cli/term"
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

// FieldValue is [Value] of a field that [view.Change] names. Times of Millrace in it are on this
// machine's clock.
func FieldValue(field string, value json.RawMessage) string {
	return clockedValue(field, value, PointTime)
}

func clockedValue(field string, value json.RawMessage, clock Clocked) string {
	text := Value(value)
	if OfUsers(field) {
		return text
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return clock(at)
	}
	return Clocks(text)
}

// OfUsers tells whether a field of a task or definition holds what people and programs have written,
// in which times stay as they are.
func OfUsers(field string) bool {
	root, _, _ := strings.Cut(field, ".")
	return slices.Contains([]string{"checkpoint", "inputs", "labels", "make", "message", "params", "result", "spec", "when"}, root)
}

// Value is a JSON value for people: a text without its quotes; "" for none.
func Value(value json.RawMessage) string {
	text, is := Unquoted(value)
	if !is {
		text = string(value)
	}
	return term.Cut(text, longValue)
}

// Unquoted is the text that a JSON value is; false if it is none, or if it would look like another value: "1.10" is
// no number.
func Unquoted(value json.RawMessage) (text string, is bool) {
	is = json.Unmarshal(value, &text) == nil && text != "" && strings.TrimSpace(text) == text && !json.Valid([]byte(text))
	return text, is
}

// Seqs names the sequences of facts, the first of all: #5 #7 ….
func Seqs(seqs []uint64, all int) string {
	parts := make([]string, len(seqs))
	for i, seq := range seqs {
		parts[i] = fmt.Sprintf("#%d", seq)
	}
	if all > len(seqs) {
		parts = append(parts, "…")
	}
	return strings.Join(parts, " ")
}
