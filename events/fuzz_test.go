package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"millrace/task"
)

// A message is either refused, or is a fact that can be written and read back equal.
func FuzzDecode(f *testing.F) {
	for _, text := range corpusFacts(f) {
		f.Add(text)
		f.Add(bytes.Replace(text, []byte(`"type":"`), []byte(`"later":{"a":1},"type":"x`), 1))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		given := bytes.Clone(data)
		first, err := Decode(data)
		if !bytes.Equal(data, given) {
			t.Fatalf("Decode changed its input to\n%s", data)
		}
		if err != nil {
			return
		}
		if !json.Valid(data) {
			t.Fatal("it was decoded though it is not valid JSON")
		}
		if (first.Event == nil) == known(first.Type) {
			t.Fatalf("a fact of type %s has the event %T", first.Type, first.Event)
		}
		raw, err := Encode(nil, &first)
		if errors.Is(err, ErrTooLarge) {
			return // escapes can make it longer
		}
		if err != nil {
			t.Fatalf("it was decoded to\n%+v\nand cannot be encoded: %v", first, err)
		}
		second, err := Decode(raw)
		if err != nil {
			t.Fatalf("it was encoded as\n%s\nand cannot be decoded: %v", raw, err)
		}
		again, err := Encode(nil, &second)
		if err != nil || !bytes.Equal(again, raw) {
			t.Fatalf("encoded anew it is\n%s (%v), was\n%s", again, err, raw)
		}
		if first, second = withoutLists(first), withoutLists(second); !reflect.DeepEqual(first, second) {
			t.Fatalf("it is\n%+v\nand after a round trip\n%+v", first, second)
		}
	})
}

// withoutLists removes what can differ in memory but not on the wire: an empty list within a part
// of an event may not be written.
func withoutLists(f Fact) Fact {
	switch e := f.Event.(type) {
	case task.Submitted:
		e.Spec, e.Needs = nil, nil
		f.Event = e
	case task.Queued:
		e.Spec, e.Needs = nil, nil
		f.Event = e
	case task.Expanded:
		e.Children = task.Children{}
		f.Event = e
	case task.Granted:
		e.Grants = nil
		f.Event = e
	case task.ScheduleAdmitted:
		e.Ledger = task.Ledger{}
		f.Event = e
	case task.ScheduleSkipped:
		e.Ledger = task.Ledger{}
		f.Event = e
	case task.ScheduleQueued:
		e.Ledger = task.Ledger{}
		f.Event = e
	}
	return f
}
