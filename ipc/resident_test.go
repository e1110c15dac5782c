package ipc

import (
	"fmt"
	"strings"
	"testing"
)

// TestTurns: what a line of a resident program is under the key of the current task, and between
// tasks. Only a sign of life counts for the program whatever key it has.
func TestTurns(t *testing.T) {
	for _, c := range []struct{ line, during, between string }{
		{`{"v":1,"type":"HELLO","key":"now","payload":{"protocol":1,"tasks":["a"]}}`, `HELLO {"protocol":1,"tasks":["a"]}`, `bare ? "HELLO"`},
		{`{"v":1,"type":"DONE","key":"now"}`, `DONE `, `bare ? "DONE"`},
		{`{"v":1,"type":"DONE","key":"before"}`, `bare ? "DONE"`, `bare ? "DONE"`},
		{`{"v":1,"type":"DONE"}`, `text`, `text`},
		{`{"v":1,"type":"RESULT","key":"now","id":"1","payload":1}`, `RESULT 1 1`, `bare ? "RESULT"`},
		{`{"v":1,"type":"PROGRESS","key":"before","payload":0.5}`, `bare ? "PROGRESS"`, `bare ? "PROGRESS"`},
		{`{"v":1,"type":"PROGRESS","payload":0.5}`, `bare PROGRESS 0.5`, `bare PROGRESS 0.5`},
		{`{"v":1,"type":"HEARTBEAT","key":"now"}`, `HEARTBEAT `, `bare HEARTBEAT `},
		{`{"v":1,"type":"HEARTBEAT","key":"before"}`, `bare HEARTBEAT `, `bare HEARTBEAT `},
		{`{"v":1,"type":"HEARTBEAT"}`, `bare HEARTBEAT `, `bare HEARTBEAT `},
		{`{"v":1,"type":"LEAP","key":"now","id":"7","payload":{"name":"charge"}}`, `? "LEAP" 7`, `text`},
		{`{"v":2,"type":"RESULT","key":"now","payload":1}`, `? "RESULT"`, `text`},
		{`{"v":1,"type":"LEAP","key":"before"}`, `text`, `text`},
		{`{"type":"LEAP","text":"now"}`, `text`, `text`},
		{`hello`, `text`, `text`},
	} {
		for now, want := range map[string]string{"now": c.during, "": c.between} {
			var turns Turns
			turns.Set(now)
			r := NewReader(nil)
			r.Reset(strings.NewReader(c.line+"\n"), Gate{Keyless: KeylessReports, Turns: &turns})
			item, err := r.Next()
			if item.Withheld != "" {
				item, err = r.Next()
			}
			m := item.Message
			got := strings.TrimSuffix(fmt.Sprintf("%s %s %s", m.Type, m.Payload, m.ID), " ")
			if !item.IsMessage() {
				got = "text"
			} else if m.Bare {
				got = "bare " + got
			}
			if err != nil || got != want {
				t.Errorf("%s under %q: %s, %v; want %s", c.line, now, got, err, want)
			}
		}
	}
	// To any other program they are text.
	for _, typ := range []string{TypeHello, TypeDone, TypeStep, TypeStepped} {
		r := NewReader(strings.NewReader(`{"v":1,"type":"` + typ + `","payload":{}}`))
		if item, err := r.Next(); item.IsMessage() || item.Withheld != "" || err != nil {
			t.Errorf("%s is %+v, %v", typ, item, err)
		}
	}
}
