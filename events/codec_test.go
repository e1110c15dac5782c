package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/node"
)

const (
	head      = `"id":"01JNA0FACT0000000000000000","at":"2026-03-01T12:00:00Z","task":"01JNA0TASK0000000000000000"`
	submitted = `{"type":"task.submitted",` + head + `,"route":"default.5"`
	finished  = `{"type":"attempt.finished",` + head
)

func TestDecodeRefuses(t *testing.T) {
	deep := strings.Repeat("[", 100_000)
	for name, text := range map[string]string{
		"nothing":                       ``,
		"space":                         ` `,
		"null":                          `null`,
		"a number":                      `1`,
		"a list":                        `[]`,
		"an empty object":               `{}`,
		"an open object":                finished,
		"a closed list":                 finished + `]`,
		"trailing garbage":              finished + `} x`,
		"two facts":                     finished + `}` + finished + `}`,
		"a comma at the end":            finished + `,}`,
		"a comma at the start":          `{,"type":"task.reopened",` + head + `}`,
		"no comma":                      finished + ` "exit":1}`,
		"no colon":                      finished + `,"exit" 1}`,
		"no key":                        finished + `,1:1}`,
		"no type":                       `{` + head + `}`,
		"an empty type":                 `{"type":"",` + head + `}`,
		"a type of the wrong kind":      `{"type":1,` + head + `}`,
		"no id":                         `{"type":"task.reopened","at":"2026-03-01T12:00:00Z","task":"T"}`,
		"no time":                       `{"type":"task.reopened","id":"F","task":"T"}`,
		"null as time":                  `{"type":"task.reopened","id":"F","at":null,"task":"T"}`,
		"no day":                        `{"type":"task.reopened","id":"F","at":"yesterday","task":"T"}`,
		"no such day":                   `{"type":"task.reopened","id":"F","at":"2026-02-30T00:00:00Z","task":"T"}`,
		"a year of five digits in UTC":  `{"type":"task.reopened","id":"F","at":"9999-12-31T23:59:59-01:00","task":"T"}`,
		"a time as a number":            `{"type":"task.reopened","id":"F","at":1,"task":"T"}`,
		"neither task nor node":         `{"type":"task.reopened","id":"F","at":"2026-03-01T12:00:00Z"}`,
		"a task's type with a node":     `{"type":"attempt.started","id":"F","at":"2026-03-01T12:00:00Z","node":"w1"}`,
		"a node's type with a task":     `{"type":"node.online",` + head + `}`,
		"a later version of a type":     `{"type":"task.reopened","v":2,` + head + `}`,
		"a later version of no type":    `{"type":"task.teleported","v":2,` + head + `}`,
		"unknown and about nothing":     `{"type":"x","id":"F","at":"2026-03-01T12:00:00Z"}`,
		"a birth without spec":          submitted + `}`,
		"a birth with null as spec":     submitted + `,"spec":null}`,
		"a birth without route":         `{"type":"task.submitted",` + head + `,"spec":{}}`,
		"a route that is none":          `{"type":"task.submitted",` + head + `,"spec":{},"route":"default"}`,
		"a priority out of bounds":      `{"type":"task.submitted",` + head + `,"spec":{},"route":"default.11"}`,
		"a spec of the wrong kind":      submitted + `,"spec":"true"}`,
		"a spec with a wrong field":     submitted + `,"spec":{"run":[]}}`,
		"a spec with a wrong duration":  submitted + `,"spec":{"timeout":{"run":"-1s"}}}`,
		"a spec that is no JSON":        submitted + `,"spec":{"run" {}}}`,
		"params that are no JSON":       submitted + `,"spec":{},"params":{foo}}`,
		"a time of the wrong kind":      submitted + `,"spec":{},"start_by":5}`,
		"labels of the wrong kind":      submitted + `,"spec":{},"labels":{"a":1}}`,
		"a result that is no JSON":      finished + `,"result":{"a":]}}`,
		"a result cut off":              finished + `,"result":{"a":1`,
		"a result with a wrong escape":  finished + `,"result":"\x"}`,
		"a result with a raw newline":   finished + ",\"result\":\"a\nb\"}",
		"a result with two dots":        finished + `,"result":1..2}`,
		"a result that begins with 0":   finished + `,"result":01}`,
		"a result that is a minus":      finished + `,"result":-}`,
		"NaN":                           finished + `,"result":NaN}`,
		"an exit that is NaN":           finished + `,"exit":NaN}`,
		"Infinity":                      finished + `,"result":-Infinity}`,
		"nested too deeply":             finished + `,"result":` + deep + `}`,
		"nested too deeply and closed":  finished + `,"result":` + deep + strings.Repeat("]", 100_000) + `}`,
		"an unknown field nested so":    finished + `,"later":` + deep + `}`,
		"an unknown field, no JSON":     finished + `,"later":{"a"}}`,
		"an unknown string, no JSON":    finished + `,"later":"\q"}`,
		"a huge exit":                   finished + `,"exit":99999999999999999999}`,
		"a huge epoch":                  finished + `,"epoch":18446744073709551616}`,
		"an epoch below zero":           finished + `,"epoch":-1}`,
		"a broken number":               finished + `,"attempt":1.5}`,
		"a number with an exponent":     finished + `,"attempt":1e3}`,
		"a number that begins with 0":   finished + `,"attempt":007}`,
		"a number as a string":          finished + `,"attempt":"1"}`,
		"a number as an object":         finished + `,"attempt":{}}`,
		"a string as a number":          `{"type":"task.reopened",` + head + `,"reason":1}`,
		"a string as a list":            `{"type":"task.reopened",` + head + `,"reason":[]}`,
		"a string with a raw tab":       "{\"type\":\"task.reopened\"," + head + ",\"reason\":\"a\tb\"}",
		"a string with a wrong escape":  `{"type":"task.reopened",` + head + `,"reason":"\u12"}`,
		"a string that is not UTF-8":    "{\"type\":\"task.reopened\"," + head + ",\"reason\":\"\xff\"}",
		"a string without end":          `{"type":"task.reopened",` + head + `,"reason":"a`,
		"a usage of the wrong kind":     finished + `,"usage":[]}`,
		"a known field twice":           finished + `,"epoch":1,"epoch":2}`,
		"a known field twice, escaped":  finished + `,"epoch":1,"\u0065poch":2}`,
		"null and then a value":         finished + `,"epoch":null,"epoch":2}`,
		"the type twice":                finished + `,"type":"attempt.finished"}`,
		"an unknown field twice":        finished + `,"later":1,"later":2}`,
		"another type's field twice":    finished + `,"slots":1,"slots":1}`,
		"a retry of the wrong kind":     `{"type":"attempt.failed",` + head + `,"retry":1}`,
		"a retry due in the year 10000": `{"type":"attempt.failed",` + head + `,"retry":{"due":"9999-12-31T23:59:59-01:00"}}`,
		"a takeover of the wrong kind":  `{"type":"attempt.started",` + head + `,"took_over":{"epoch":"1"}}`,
		"queues of the wrong kind":      `{"type":"node.registered","id":"F","at":"2026-03-01T12:00:00Z","node":"w1","queues":"default"}`,
	} {
		if f, err := Decode([]byte(text)); err == nil {
			t.Errorf("%s: %.120s\nwas decoded to %+v", name, text, f)
		}
	}
}

func TestDecodeAccepts(t *testing.T) {
	zero := 0
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	fact := func(typ Type, e any) Fact {
		return Fact{ID: sampleFact, At: at, Type: typ, Task: sampleTask, Event: e}
	}
	for name, c := range map[string]struct {
		text string
		want Fact
	}{
		"space between the parts": {
			"\n{ \"type\" :\t\"task.reopened\" , " + head + " }\r\n", fact(TaskReopened, task.Reopened{})},
		"fields in another order": {
			`{"reason":"why","exit":0,` + head + `,"epoch":4,"type":"task.cancelled"}`,
			fact(TaskCancelled, task.CancelConfirmed{Reason: "why", Epoch: 4, Exit: &zero})},
		"null for absent": {
			finished + `,"v":null,"exit":null,"usage":null,"epoch":null,"actor":null}`, fact(AttemptFinished, task.AttemptFinished{})},
		"null as a result": {
			finished + `,"result":null}`, fact(AttemptFinished, task.AttemptFinished{Result: json.RawMessage(`null`)})},
		"a time of another zone": {
			`{"type":"task.cancel_requested","id":"01JNA0FACT0000000000000000","at":"2026-03-01T13:00:00+01:00","task":"01JNA0TASK0000000000000000","deadline":"2026-03-01T07:00:00-05:00"}`,
			fact(TaskCancelRequested, task.CancelRequested{Deadline: at})},
		"no last attempt is as good as null": {
			`{"type":"attempt.failed",` + head + `,"class":"exit"}`, fact(AttemptFailed, task.AttemptFailed{Class: "exit"})},
		"escapes": {
			`{"type":"task.reopened",` + head + `,"reason":"a\n\u00fc\ud83d\ude00\u0000"}`, fact(TaskReopened, task.Reopened{Reason: "a\nü😀\x00"})},
		"empty collections": {
			`{"type":"node.registered","id":"01JNA0FACT0000000000000000","at":"2026-03-01T12:00:00Z","node":"w1","labels":{},"queues":[]}`,
			Fact{ID: sampleFact, At: at, Type: NodeRegistered, Node: "w1", Event: node.Registered{}}},
	} {
		got, err := Decode([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got\n%+v\nwant\n%+v", name, got, c.want)
		}
	}
}

// A reader keeps the fields that it does not know, although other types use the same names.
func TestUnknownFieldsAreKept(t *testing.T) {
	for _, text := range []string{
		`{"type":"attempt.started","v":1,` + head + `,"node":"w1","reason":"also a field elsewhere","zone":{"a":[1, 2]}}`,
		`{"type":"task.reopened","v":1,` + head + `,"attempt":3,"exit":null,"node":"w1"}`,
		`{"type":"node.online","v":1,"id":"F","at":"2026-03-01T12:00:00Z","node":"w1","slots":"many","task":"T"}`,
		`{"type":"task.invented","v":1,` + head + `,"class":"new","epoch":"not a number here","node":"w1","route":7}`,
		`{"type":"node.invented","v":1,"id":"F","at":"2026-03-01T12:00:00Z","node":"w1","session":"s1","spec":null}`,
		`{"type":"x","v":1,"id":"F","at":"2026-03-01T12:00:00Z","node":"w1","actor":"me","cause":"C","corr":"C","":1}`,
	} {
		f, err := Decode([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if (f.Event == nil) == known(f.Type) {
			t.Errorf("%s has the event %T", f.Type, f.Event)
		}
		again, err := Encode(nil, &f)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got, want map[string]any
		if err := errors.Join(json.Unmarshal(again, &got), json.Unmarshal([]byte(text), &want)); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nbecame\n%s", text, again)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	reopened := full()[TaskReopened]
	birth := full()[TaskSubmitted]
	bent := func(f Fact, bend func(*Fact)) Fact { bend(&f); return f }
	bentWork := func(bend func(*task.Submitted)) Fact {
		e := birth.Event.(task.Submitted)
		bend(&e)
		return bent(birth, func(f *Fact) { f.Event = e })
	}
	for name, f := range map[string]Fact{
		"no event":                     bent(reopened, func(f *Fact) { f.Event = nil }),
		"no event and no type":         bent(reopened, func(f *Fact) { f.Event, f.Type = nil, "" }),
		"a pointer to an event":        bent(reopened, func(f *Fact) { f.Event = &task.Reopened{} }),
		"no id":                        bent(reopened, func(f *Fact) { f.ID = "" }),
		"no time":                      bent(reopened, func(f *Fact) { f.At = time.Time{} }),
		"a year of five digits":        bent(reopened, func(f *Fact) { f.At = f.At.AddDate(9000, 0, 0) }),
		"about nothing":                bent(reopened, func(f *Fact) { f.Task = "" }),
		"about a node":                 bent(reopened, func(f *Fact) { f.Task, f.Node = "", "w1" }),
		"about a task and a node":      bent(reopened, func(f *Fact) { f.Node = "w1" }),
		"a node's event about a task":  bent(full()[NodeOnline], func(f *Fact) { f.Task, f.Node = sampleTask, "" }),
		"no spec":                      bentWork(func(e *task.Submitted) { e.Spec = nil }),
		"no route":                     bentWork(func(e *task.Submitted) { e.Route = "" }),
		"params that are no JSON":      bentWork(func(e *task.Submitted) { e.Params = json.RawMessage(`{`) }),
		"params that are not UTF-8":    bentWork(func(e *task.Submitted) { e.Params = json.RawMessage("\"\xff\"") }),
		"a deadline out of range":      bentWork(func(e *task.Submitted) { e.StartBy = e.StartBy.AddDate(9000, 0, 0) }),
		"a due time out of range":      bentWork(func(e *task.Submitted) { e.Due = e.Due.AddDate(9000, 0, 0) }),
		"extra that is no JSON":        bent(reopened, func(f *Fact) { f.Extra = map[string]json.RawMessage{"later": json.RawMessage(`x`)} }),
		"extra that is a known field":  bent(reopened, func(f *Fact) { f.Extra = map[string]json.RawMessage{"reason": json.RawMessage(`"x"`)} }),
		"extra that is a common field": bent(reopened, func(f *Fact) { f.Extra = map[string]json.RawMessage{"id": json.RawMessage(`"x"`)} }),
	} {
		dst := []byte("kept")
		got, err := Encode(dst, &f)
		if err == nil {
			t.Errorf("%s: was encoded to %s", name, got)
		}
		if string(got) != "kept" {
			t.Errorf("%s: dst is now %q", name, got)
		}
	}
}

func TestEncodeBounds(t *testing.T) {
	f := full()[TaskReopened]
	f.Event = task.Reopened{Reason: strings.Repeat("x", MaxFact)}
	if _, err := Encode(nil, &f); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a fact that is too large: %v, want ErrTooLarge", err)
	}
	f.Event = task.Reopened{}
	small, err := Encode(nil, &f)
	if err != nil {
		t.Fatal(err)
	}
	f.Event = task.Reopened{Reason: strings.Repeat("x", MaxFact-len(small)-len(`,"reason":""`))}
	if raw, err := Encode([]byte("before"), &f); err != nil || len(raw) != MaxFact+len("before") {
		t.Errorf("the largest fact there can be: %v, %d bytes", err, len(raw))
	}
}

// Strings that JSON cannot hold exactly are written as well as possible, and can be read again.
func TestStringsSurvive(t *testing.T) {
	for _, s := range []string{"", "plain", `"quoted" \ back`, "\x00\x1f\x7f", "ünïcödé 😀", "\u2028", "<script>&", strings.Repeat("long ", 1000)} {
		f := full()[TaskReopened]
		f.Event = task.Reopened{Reason: s}
		raw, err := Encode(nil, &f)
		if err != nil {
			t.Fatal(err)
		}
		if read, err := Decode(raw); err != nil || read.Event != f.Event {
			t.Errorf("%q came back as %+v, %v", s, read.Event, err)
		}
	}
	f := full()[TaskReopened]
	f.Event = task.Reopened{Reason: "cut off \xe2\x82"}
	raw, err := Encode(nil, &f)
	if err != nil || !bytes.Contains(raw, []byte("cut off \ufffd")) && !bytes.Contains(raw, []byte(`cut off \ufffd`)) {
		t.Errorf("a string that is not UTF-8 became %s, %v", raw, err)
	}
}

// Times are written in UTC, in every field.
func TestTimesAreUTC(t *testing.T) {
	zone := time.FixedZone("far", 5*3600+1800)
	for _, typ := range []Type{TaskSubmitted, TaskQueued, AttemptFailed, TaskCancelRequested} {
		f := full()[typ]
		want, _ := Encode(nil, &f)
		f.At = f.At.In(zone)
		switch e := f.Event.(type) {
		case task.Submitted:
			e.Due, e.StartBy = e.Due.In(zone), e.StartBy.In(zone)
			f.Event = e
		case task.Queued:
			e.Due, e.StartBy = e.Due.In(zone), e.StartBy.In(zone)
			f.Event = e
		case task.AttemptFailed:
			e.Retry = &task.RetryPlan{Attempt: e.Retry.Attempt, Due: e.Retry.Due.In(zone)}
			f.Event = e
		case task.CancelRequested:
			e.Deadline = e.Deadline.In(zone)
			f.Event = e
		}
		if got, err := Encode(nil, &f); err != nil || !bytes.Equal(got, want) {
			t.Errorf("in another zone %s is written as\n%s (%v), want\n%s", typ, got, err, want)
		}
	}
}
