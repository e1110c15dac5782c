package job

import (
	"slices"
	"testing"
	"time"

	"millrace/task/value"
)

// TestUnfolded makes steps of what runs without them, and has handlers.
func TestUnfolded(t *testing.T) {
	day := value.Duration(24 * time.Hour)
	on := &Handlers{Failure: &Step{Spec: Spec{Handler: "tell"}}}
	s := &Spec{Run: &Run{Argv: []string{"x"}}, On: on, Unique: Unique{Key: "k"}, Signal: &Signal{}, Retry: Retry{Max: 3}, Timeout: Timeout{Run: 1, Total: day}, Slots: 2}
	whole := s.Unfolded()
	if err := whole.Validate(); err != nil || s.Validate() != nil || len(whole.Steps) != 1 {
		t.Fatalf("it is %+v: %v", whole, err)
	}
	step := &whole.Steps[0]
	if whole.On != on || whole.Unique.Key != "k" || whole.Signal == nil || whole.Timeout != (Timeout{Total: day}) || whole.Retry.Max != 0 ||
		step.Name != OwnStep || step.Run != s.Run || step.Retry.Max != 3 || step.Slots != 2 || step.Timeout != (Timeout{Run: 1}) || step.On != nil || step.Signal != nil || step.Unique.Key != "" {
		t.Errorf("it is %+v with the step %+v", whole, step)
	}
	for _, other := range []*Spec{{Run: s.Run}, {On: on}, {On: &Handlers{Job: "x"}, Run: s.Run}, whole} {
		if other.Unfolded() != other {
			t.Errorf("%+v is made another one", other)
		}
	}
}

// AllFiles includes files that only a step or a handler needs.
func TestAllFiles(t *testing.T) {
	f := func(name string) *Files { return &Files{Bundle: name} }
	s := &Spec{
		Files: f("own"), Steps: []Step{{Spec: Spec{Files: f("step")}}, {}},
		On: &Handlers{Failure: &Step{Spec: Spec{Files: f("handler")}}},
	}
	var got []string
	for _, one := range s.AllFiles() {
		got = append(got, one.Bundle)
	}
	if !slices.Equal(got, []string{"own", "step", "handler"}) || (*Spec)(nil).AllFiles() != nil {
		t.Errorf("the files are %v", got)
	}
}
