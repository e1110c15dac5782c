package job

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// Every rule fills in its whole entry, and copies exactly the fields that it has.
func TestRules(t *testing.T) {
	names := map[string]bool{}
	for _, r := range Rules {
		t.Run(r.Name, func(t *testing.T) {
			if names[r.Name] {
				t.Error("it stands in the table twice")
			}
			names[r.Name] = true
			switch r.Question {
			case Condition, Quota, Valve, Choice:
			default:
				t.Errorf("its question is %q", r.Question)
			}
			if r.Has(&Spec{}) {
				t.Error("a spec without anything has it")
			}
			with := &Spec{}
			r.Least(with)
			var fields map[string]json.RawMessage
			if text, err := json.Marshal(with); err != nil || json.Unmarshal(text, &fields) != nil || len(fields) != 1 || fields[r.Name] == nil {
				t.Errorf("at its least it is %s (%v), want the field %s", text, err, r.Name)
			}
			if err := r.Check(with); err != nil {
				t.Errorf("at its least it is refused: %v", err)
			}
			if r.Words != nil && strings.Join(r.Words(with), "") == "" {
				t.Error("it does not say what it allows")
			}
			if !r.Has(with) {
				t.Errorf("a spec with %s does not have it", r.Name)
			}
			if is := with.Ruled(); !reflect.DeepEqual(is, with) {
				t.Errorf("of %+v it takes over %+v", with, is)
			}
			if is := with.Unkeyed(); r.Has(&is) == (r.Keys != nil) {
				t.Errorf("without what has keys %+v is %+v", with, is)
			}
			with.Steps = []Step{{}}
			if err := with.Validate(); err == nil || !strings.Contains(err.Error(), r.Name+" is for what runs") {
				t.Errorf("a job with steps that has it is refused with %v", err)
			}
		})
	}
	if is := (&Spec{Handler: "h"}).Ruled(); is != nil {
		t.Errorf("a spec without rules has %+v", is)
	}
}
