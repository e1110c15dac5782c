package answers

import (
	"encoding/json"
	"testing"
	"time"

	"millrace/task/job"
	"millrace/task/param"
	"millrace/task/value"
)

func TestHooked(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	declared := func(names ...string) param.Params {
		var p param.Params
		for _, name := range names {
			p.Declared = append(p.Declared, param.Param{Name: name})
		}
		return p
	}
	for name, c := range map[string]struct {
		params param.Params
		body   string
		want   string
		wrong  bool
	}{
		"no declarations":        {body: `{"a":1}`, want: `{"payload":{"a":1}}`},
		"some members":           {params: declared("a", "c"), body: `{"a":1,"b":2}`, want: `{"a":1}`},
		"the whole and a member": {params: declared("a", "payload"), body: `{"a":1,"b":2}`, want: `{"a":1,"payload":{"a":1,"b":2}}`},
		"a list":                 {params: declared("payload"), body: `[1]`, want: `{"payload":[1]}`},
		"nothing":                {body: " ", want: `{"payload":{}}`},
		"no JSON":                {body: "a=1", wrong: true},
		"no UTF-8":               {body: "\"\xff\"", wrong: true},
	} {
		s, err := hooked(&job.Job{Name: "j", Params: c.params}, "", []byte(c.body), noon)
		if is, _ := json.Marshal(s.Params); err == nil == c.wrong || err == nil && string(is) != c.want {
			t.Errorf("%s: %s, %v", name, is, err)
		}
	}
	collapses := job.Job{Name: "j", Spec: job.Spec{Collapse: &job.Collapse{Key: "k", Quiet: value.Duration(time.Second)}}}
	same := func(of *job.Job, a, b string, later time.Duration) bool {
		x, _ := hooked(of, a, nil, noon)
		y, _ := hooked(of, b, nil, noon.Add(later))
		if of.Lock().Key == "" {
			return x.ID == "" && x.Unique.Key == y.Unique.Key
		}
		return x.ID == y.ID && x.Unique == nil
	}
	for _, of := range []*job.Job{{Name: "j"}, &collapses} {
		if !same(of, "d1", "d1", time.Hour) || same(of, "d1", "d2", 0) {
			t.Errorf("a delivery of job %+v is not known again, or another is taken for it", of)
		}
	}
}
