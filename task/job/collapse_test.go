package job

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"millrace/task/value"
)

func TestCollapseIsValid(t *testing.T) {
	t.Parallel()
	quiet := value.Duration(time.Second)
	for _, c := range []struct {
		is    Collapse
		spec  Spec
		wrong string
	}{
		{is: Collapse{Key: "k", Quiet: quiet}},
		{is: Collapse{Key: "/k", Quiet: quiet, Most: quiet, Keep: KeepAll}},
		{is: Collapse{Quiet: quiet}, wrong: "collapse.key is missing"},
		{is: Collapse{Key: "k"}, wrong: "collapse.quiet is 0s, want 1ms to 24h"},
		{is: Collapse{Key: "k", Quiet: value.Duration(MaxQuiet) + 1}, wrong: "collapse.quiet"},
		{is: Collapse{Key: "k", Quiet: quiet, Most: quiet - 1}, wrong: "collapse.most"},
		{is: Collapse{Key: "k", Quiet: quiet, Keep: "some"}, wrong: `collapse.keep is "some", want last or all`},
		{is: Collapse{Key: "k", Quiet: quiet}, spec: Spec{Unique: Unique{Key: "k"}}, wrong: "collapse and unique are both set"},
		{is: Collapse{Key: "k", Quiet: quiet}, spec: Spec{Signal: &Signal{}}, wrong: "collapse does not go with a signal"},
		{is: Collapse{Key: "k", Quiet: quiet}, spec: Spec{Each: &Each{Param: "p"}}, wrong: "collapse is for a job that runs itself"},
	} {
		c.spec.Handler, c.spec.Collapse = "h", &c.is
		if err := c.spec.Validate(); err == nil != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%+v: %v, want %q", c.is, err, c.wrong)
		}
	}
}

func TestCollapsedTimesAndParameters(t *testing.T) {
	t.Parallel()
	c := Collapse{Key: "k", Quiet: value.Duration(time.Second), Keep: KeepAll}
	first := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for after, want := range map[time.Duration]time.Duration{0: time.Second, 5 * time.Second: 6 * time.Second, 9 * time.Second: 10 * time.Second, time.Minute: 10 * time.Second} {
		if is := c.Due(first, first.Add(after)); !is.Equal(first.Add(want)) {
			t.Errorf("after %v it is due %v after the first, want %v", after, is.Sub(first), want)
		}
	}
	for params, want := range map[string]string{
		"":                         `{"collected":[{}]}`,
		`{"a":1}`:                  `{"a":1,"collected":[{"a":1}]}`,
		`{"collected":[{}],"z":1}`: `{"z":1,"collected":[{}]}`, // of a copy
		`{"collected":[]}`:         `{"collected":[]}`,
	} {
		if is, err := c.Collects(json.RawMessage(params)); err != nil || string(is) != want {
			t.Errorf("%s becomes %s, %v, want %s", params, is, err, want)
		}
	}
	for _, wrong := range []string{`{"collected":1}`, `[`, `{"a":"` + strings.Repeat("x", MaxCollected/4) + `"}`} {
		if is, err := c.Collects(json.RawMessage(wrong)); err == nil {
			t.Errorf("%.20s becomes %.40s", wrong, is)
		}
	}
	if !c.Full(2, MaxCollected) || !c.Full(MaxCollapsed-1, 0) || c.Full(MaxCollapsed-2, MaxCollected-1) || (&Collapse{}).Full(2, MaxCollected) {
		t.Error("the bounds of what a task takes")
	}
	for _, joined := range [][3]string{
		{`{"collected":[{}]}`, `{"a":1,"collected":[{"a":1}]}`, `{"a":1,"collected":[{},{"a":1}]}`},
		{`{"a":{"collected":[1]},"collected":[{"x":"]}"}]}`, `{"collected":[{}]}`, `{"collected":[{"x":"]}"},{}]}`},
		{`{"collected":[1]}`, `{"b":2}`, `{"b":2}`}, // a stranger's
		{`{"collected":`, `{"collected":[1]}`, `{"collected":[1]}`},
		{``, `{"collected":[1]}`, `{"collected":[1]}`},
		{`{"collected":[1]}`, `{"collected"}`, `{"collected"}`},
	} {
		if is := c.Join(json.RawMessage(joined[0]), json.RawMessage(joined[1])); string(is) != joined[2] {
			t.Errorf("%s and %s become %s, want %s", joined[0], joined[1], is, joined[2])
		}
	}
}
