package task

import (
	"encoding/json"
	"testing"

	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/placement"
)

// Equal values are one key, and ask for the same, however their numbers are spelled.
func TestEqualValuesAreOneKey(t *testing.T) {
	of := func(x string) *Work {
		return &Work{Spelled: true, Job: "j", Route: placement.QueueRoute("q", placement.DefaultPriority), Params: json.RawMessage(`{"x":` + x + `}`), Spec: &job.Spec{
			Unique: job.Unique{Key: "{params.x}"}, Concurrency: []limit.Concurrency{{Max: 1, Key: "/{params.x}"}}, Rate: []limit.Rate{{Limit: 1, Per: 1e9, Key: "{params.x}"}},
		}}
	}
	for spelling, want := range map[string]string{
		"1.0": "1", "1e0": "1", "10E-1": "1", "-0": "0", "9007199254740993.0": "9007199254740993", "[1.0]": "[1]", `{"b":1,"a":1e1}`: `{"a":10,"b":1}`, `"1.0"`: "1.0",
	} {
		w := of(spelling)
		unique, err := w.UniqueKey()
		counters, bad := w.Counters()
		if err != nil || bad != nil || unique != "j/"+want || counters[0].Name != "key:/"+want || counters[1].Name != "rate:j/"+want {
			t.Errorf("%s: the keys are %s and %+v (%v, %v), want %s", spelling, unique, counters, err, bad, want)
		}
	}
	// A birth of an early version keeps its keys: what it was admitted under stays true.
	early := of("1.0")
	early.Spelled = false
	if key, err := early.UniqueKey(); key != "j/1.0" {
		t.Errorf("an early birth has the key %s (%v)", key, err)
	}
	one, other := Submitted{Work: *of("1.0")}, Submitted{Work: *of("1")}
	if at := one.Differs(&other); at != "" {
		t.Errorf("1.0 and 1 differ at %s", at)
	}
	if other.Params = json.RawMessage(`{"x":1.5}`); one.Differs(&other) != "params.x" {
		t.Errorf("1.0 and 1.5 differ at %q", one.Differs(&other))
	}
}
