package findings

import (
	"encoding/json"
	"testing"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
)

// Two keys of a task may become the same. The bounds after them keep their own on_limit.
func TestOnLimitBehindAKeyThatIsThereTwice(t *testing.T) {
	spec := job.Spec{Handler: "h", Concurrency: limit.Concurrencies{{Max: 3, Key: "{params.to}"}, {Max: 2, Key: "{params.by}", OnLimit: limit.Skip}, {Max: 1, Key: "x", OnLimit: limit.Fail}}}
	w := task.Work{Job: "mail", Route: "default.5", Spec: &spec, Params: json.RawMessage(`{"to":"acme","by":"acme"}`)}
	words := NewWords()
	terms := NewTerms(&words)
	bounds := terms.Of(&w)
	if i := terms.Index(bounds, "key:mail/x"); i != 1 || bounds.OnLimit(i) != limit.Fail {
		t.Errorf("%d of %+v", i, bounds)
	}
	if i := terms.Index(bounds, "key:mail/acme"); i != 0 || bounds.OnLimit(i) != limit.Skip {
		t.Errorf("%d of %+v", i, bounds)
	}
}
